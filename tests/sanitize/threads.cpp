// Several threads on one small index: threads SECONDS SEED FOLDER
//
// Each thread has its own requests, of tenants that all share; the main thread saves and inspects.
#include <atomic>
#include <thread>

#include "errors.hpp"
#include "hostile.hpp"

namespace sanitize {
namespace {

using namespace specgate::suffix;

constexpr std::size_t kThreads = 4;
constexpr std::size_t kTenants = 3;
constexpr std::size_t kCapacityBytes = 150 * kBlockBytes;

std::atomic<std::size_t> drafted{0};

void talk(Index& index, std::uint64_t seed, const Clock& clock) {
  Dice dice(seed);
  const std::string name = "request-" + std::to_string(seed);
  while (!clock.is_over()) {
    const std::string tenant = "tenant-" + std::to_string(dice.below(kTenants));
    try {
      index.start(name, tenant, dice.text(6000), static_cast<float>(dice.below(2)));
    } catch (const OutOfRoom&) {
      continue;
    }
    if (dice.one_in(3)) index.predict(name, dice.text(3000));
    for (std::size_t turns = dice.below(60); turns > 0; --turns) {
      Room room(dice.below(20));
      if (dice.one_in(2)) {
        index.propose(name, 0.1f, room.draft);
      } else {
        const std::vector<Token> last = {1};
        Query query{index.handle(name), last, room.draft};
        index.advance({&query, 1}, 0.0f);
        room.draft.length = query.draft.length;
        room.draft.predicted = query.draft.predicted;
      }
      room.check(1.0f);
      Room graft(dice.below(20));
      index.propose_after(name, dice.text(kLongestDraft), 0.5f, 0.0f, graft.draft);
      graft.check(0.5f);
      drafted += static_cast<std::size_t>(room.draft.length);
      std::vector<Token> tokens(room.tokens.begin(), room.tokens.begin() + room.draft.length);
      if (dice.one_in(3)) tokens = dice.text(3000);
      tokens.push_back(1);
      index.extend(name, tokens);
    }
    index.finish(name, !dice.one_in(4));
  }
}

void inspect(Index& index, const std::string& path, const Clock& clock) {
  while (!clock.is_over()) {
    const Stats stats = index.stats();
    require(stats.bytes <= stats.capacity_bytes, "the bound on memory holds");
    index.model_of("tenant-0");
    index.save(path);
    for (const bool loads : {true, false}) {
      try {
        loads ? index.load(path) : index.clear();
      } catch (const BadInput&) {  // a request is running
      }
    }
  }
}

}  // namespace
}  // namespace sanitize

int main(int count, char** arguments) {
  using namespace sanitize;
  require(count == 4, "threads SECONDS SEED FOLDER");
  const Clock clock(std::atof(arguments[1]));
  const std::uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
  Index index(kCapacityBytes, seed);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { talk(index, seed + i, clock); });
    }
    inspect(index, std::string(arguments[3]) + "/snapshot", clock);
  }
  require(index.stats().requests == 0, "every request has ended");
  std::printf("%zu drafted, %llu evicted\n", drafted.load(),
              static_cast<unsigned long long>(index.stats().evicted_tokens));
}
