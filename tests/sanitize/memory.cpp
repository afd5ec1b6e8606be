// An index on a system without memory: memory SECONDS SEED FOLDER
//
// Allocations fail at random. A call may then fail with OutOfRoom or std::bad_alloc; the index goes
// on, and when all is over nothing is left of it.
#include <cstdlib>
#include <map>
#include <new>

#include "errors.hpp"
#include "hostile.hpp"

namespace {

thread_local std::mt19937_64* failing = nullptr;  // allocations fail if it is set
std::size_t failed = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (failing != nullptr && (*failing)() % 4 == 0) {
    ++failed;
    throw std::bad_alloc();
  }
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace sanitize {
namespace {

using namespace specgate::suffix;

constexpr std::uint64_t kVocabulary = 49152;

class Episode {
 public:
  Episode(Dice& dice, std::mt19937_64& chance, const std::string& folder)
      : dice_(dice), chance_(chance), path_(folder + "/snapshot") {
    index_.save(path_, "model");
  }

  void step() {
    const std::string name = "request-" + std::to_string(dice_.below(12));
    const std::string tenant = "tenant-" + std::to_string(dice_.below(8));
    const std::vector<Token> text = dice_.text(dice_.one_in(8) ? 20000 : 500);
    const bool runs = running_.contains(name);
    switch (dice_.below(7)) {
      case 0:
      case 1:
        if (!runs && tried([&] { index_.start(name, tenant, text, 0.0f); })) running_[name] = true;
        break;
      case 2:
        if (runs) tried([&] { index_.predict(name, text); });
        break;
      case 3:
        if (runs) tried([&] { index_.finish(name, true); });  // ends it in any case
        running_.erase(name);
        break;
      case 4:
        if (dice_.one_in(50)) tried([&] { index_.save(path_, "model"); });
        if (dice_.one_in(50)) tried([&] { load(loaded_); });
        break;
      default:
        if (runs) step_of(name, text);
    }
    const Stats stats = index_.stats();
    require(stats.bytes <= stats.capacity_bytes, "the bound on memory holds");
    require(stats.requests == running_.size(), "a request runs from its start to its end");
    if (dice_.one_in(1000)) restart();
  }

  // Ends everything. A request or block that was lost on the way would show here.
  void restart() {
    for (const auto& [name, runs] : running_) index_.finish(name, false);
    running_.clear();
    index_.save(path_, "model");
    clear();
    Loaded part;
    tried([&] { load(part); });
    load(part);  // with memory it goes on
    clear();
  }

  std::size_t drafted() const { return drafted_; }

 private:
  void step_of(const std::string& name, std::span<const Token> text) {
    Room room(16);
    const Handle handle = index_.handle(name);
    Query query{handle, text, room.draft};
    if (!tried([&] { index_.advance({&query, 1}, 0.0f); })) return;
    room.draft.length = query.draft.length;
    room.draft.predicted = query.draft.predicted;
    room.check(1.0f, kVocabulary);
    drafted_ += static_cast<std::size_t>(room.draft.length);
  }

  void load(Loaded& loaded) { index_.load(path_, "model", loaded); }

  void clear() {
    index_.clear();
    require(index_.stats().bytes == 0, "nothing is left of it");
  }

  template <class Call>
  bool tried(Call call) {
    failing = dice_.one_in(2) ? &chance_ : nullptr;
    bool done = true;
    try {
      call();
    } catch (const std::bad_alloc&) {
      done = false;
    } catch (const OutOfRoom&) {
      done = false;
    }
    failing = nullptr;
    return done;
  }

  Dice& dice_;
  std::mt19937_64& chance_;
  std::string path_;
  Index index_{4u << 20, kVocabulary, 1};
  Loaded loaded_;
  std::map<std::string, bool> running_;
  std::size_t drafted_ = 0;
};

}  // namespace
}  // namespace sanitize

int main(int count, char** arguments) {
  using namespace sanitize;
  require(count == 4, "memory SECONDS SEED FOLDER");
  const Clock clock(std::atof(arguments[1]));
  std::uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
  std::size_t drafted = 0;
  while (!clock.is_over()) {
    Dice dice(seed);
    std::mt19937_64 chance(seed++);
    Episode episode(dice, chance, arguments[3]);
    for (int i = 0; i < 3000 && !clock.is_over(); ++i) episode.step();
    episode.restart();
    drafted += episode.drafted();
  }
  require(failed > 0 && drafted > 0, "some allocations failed, and some drafts were made");
  std::printf("%zu allocations failed, %zu drafted\n", failed, drafted);
}
