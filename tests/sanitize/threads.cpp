// Several threads on one small index: threads SECONDS SEED FOLDER
//
// Each thread has its own requests, of tenants that all share; the main thread saves and inspects,
// and another one loads what was saved, while requests run. One thread counts: every token that it
// writes is the one before it plus one, and so is every token that a saved file continues it with,
// whatever was appended, loaded and evicted during the save.
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
constexpr std::uint64_t kVocabulary = 1u << 30;
constexpr Token kFirst = 1000000;  // of those that are counted

std::atomic<std::size_t> drafted{0};
std::atomic<std::size_t> loads{0};
std::atomic<Token> counted{kFirst};

// Answers of different lengths, so that blocks end anywhere in them.
void count_up(Index& index, std::uint64_t seed, const Clock& clock) {
  Dice dice(seed);
  const std::vector<Token> prompt = {1};
  while (!clock.is_over() && counted < Token{1} << 29) {
    try {
      index.start("counting", "counter", prompt, 0.0f);
    } catch (const OutOfRoom&) {
      continue;
    }
    std::vector<Token> tokens(dice.length(9000));
    for (Token& token : tokens) token = counted++;
    index.extend("counting", tokens);
    index.finish("counting", true);
    counted += 10;  // nothing continues one answer into the next
  }
}

// Returns how many tokens the saved file continued.
std::size_t check_saved(const std::string& path, Dice& dice) {
  Index saved(kCapacityBytes, kVocabulary, dice.below(1000));
  Loaded none;
  saved.load(path, "model", none);
  std::size_t continued = 0;
  const std::vector<Token> prompt = {1};
  for (int probe = 0; probe < 200; ++probe) {
    const Token back = static_cast<Token>(dice.below(60000));
    const Token from = std::max(kFirst, counted - back);
    const std::vector<Token> four = {from, from + 1, from + 2, from + 3};
    Room room(200);
    saved.start("probe", "counter", prompt, 0.0f);
    saved.extend("probe", four);
    saved.propose("probe", 0.0f, room.draft);
    saved.finish("probe", false);
    for (int i = 0; i < room.draft.length; ++i) {
      require(room.tokens[static_cast<std::size_t>(i)] == from + 4 + i, "a saved text is a text");
    }
    continued += static_cast<std::size_t>(room.draft.length);
  }
  return continued;
}

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
      room.check(1.0f, kVocabulary);
      Room graft(dice.below(20));
      index.propose_after(name, dice.text(kLongestDraft), 0.5f, 0.0f, graft.draft);
      graft.check(0.5f, kVocabulary);
      drafted += static_cast<std::size_t>(room.draft.length);
      std::vector<Token> tokens(room.tokens.begin(), room.tokens.begin() + room.draft.length);
      if (dice.one_in(3)) tokens = dice.text(3000);
      tokens.push_back(1);
      index.extend(name, tokens);
    }
    index.finish(name, !dice.one_in(4));
  }
}

// A file is replaced as a whole, so it is never refused, whatever is saved during the load.
void load_again(Index& index, const std::string& path, std::uint64_t seed, const Clock& clock) {
  Dice dice(seed);
  Loaded loaded;
  while (!clock.is_over()) {
    if (dice.one_in(3)) loaded = {};
    try {
      index.load(path, "model", loaded);
      ++loads;
    } catch (const OutOfRoom&) {
    }
  }
}

// Returns how many tokens the saved files continued.
std::size_t inspect(Index& index, const std::string& path, const Clock& clock) {
  Dice dice(99);
  std::size_t continued = 0;
  while (!clock.is_over()) {
    const Stats stats = index.stats();
    require(stats.bytes <= stats.capacity_bytes, "the bound on memory holds");
    index.model_of("tenant-0");
    index.save(path, "model");
    continued += check_saved(path, dice);
    try {
      index.clear();
    } catch (const BadInput&) {  // a request is running
    }
  }
  return continued;
}

}  // namespace
}  // namespace sanitize

int main(int count, char** arguments) {
  using namespace sanitize;
  require(count == 4, "threads SECONDS SEED FOLDER");
  const Clock clock(std::atof(arguments[1]));
  const std::uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
  Index index(kCapacityBytes, kVocabulary, seed);
  const std::string path = std::string(arguments[3]) + "/snapshot";
  index.save(path, "model");
  std::size_t continued = 0;
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { load_again(index, path, seed, clock); });
    threads.emplace_back([&] { count_up(index, seed, clock); });
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { talk(index, seed + i, clock); });
    }
    continued = inspect(index, path, clock);
  }
  require(index.stats().requests == 0, "every request has ended");
  require(continued > 0, "something was saved");
  require(loads > 0, "something was loaded");
  index.clear();
  require(index.stats().bytes == 0, "an empty index uses nothing");
  std::printf("%zu drafted, %llu evicted, %zu loads, %zu continued by saved files\n",
              drafted.load(), static_cast<unsigned long long>(index.stats().evicted_tokens),
              loads.load(), continued);
}
