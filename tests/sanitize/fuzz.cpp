// Random calls on small indexes: fuzz SECONDS SEED FOLDER
//
// Every call, valid or not, goes to two indexes with the same salt, which must answer alike. So an
// uninitialized value shows too.

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "errors.hpp"
#include "hostile.hpp"
#include "snapshot_file.hpp"

namespace sanitize {
namespace {

using namespace specgate::suffix;

struct Totals {
  std::size_t calls = 0;
  std::size_t drafted = 0;
  std::size_t grafted = 0;
  std::size_t predicted = 0;
  std::size_t evicted = 0;
  std::size_t refused = 0;
  std::size_t loaded = 0;
  std::size_t during = 0;
  std::size_t forged = 0;
};

class Episode {
 public:
  Episode(Dice& dice, const std::string& folder, Totals& totals)
      : dice_(dice), path_(folder + "/snapshot"), totals_(totals) {
    const std::size_t blocks = Index::kLeastBlocks + dice_.below(dice_.one_in(4) ? 1000 : 60);
    capacity_bytes_ = blocks * kBlockBytes;
    const std::size_t salt = dice_.below(std::numeric_limits<std::size_t>::max());
    constexpr std::uint64_t kVocabularies[] = {4, 1000, 49152, Index::kMostTokens};
    vocabulary_ = kVocabularies[dice_.below(std::size(kVocabularies))];
    for (auto& index : indexes_) {
      index = std::make_unique<Index>(capacity_bytes_, vocabulary_, salt);
    }
    most_tokens_ = blocks * kTokensPerBlock / (1 + dice_.below(20));
  }
  ~Episode() { totals_.evicted += indexes_[0]->stats().evicted_tokens; }

  void step() {
    ++totals_.calls;
    const std::string name = "request-" + std::to_string(dice_.below(12));
    switch (dice_.below(20)) {
      case 0:
      case 1: start(name); break;
      case 2:
      case 3:
      case 4: extend(name); break;
      case 5: predict(name); break;
      case 7: finish(name); break;
      case 9: wrong(name); break;
      case 10:
        if (dice_.one_in(12)) save_and_load();
        break;
      case 11:
      case 12: propose_after(name); break;
      case 13:
      case 14: advance(); break;
      default: propose(name);
    }
    const Stats stats = indexes_[0]->stats();
    require(stats.bytes <= stats.capacity_bytes, "the bound on memory holds");
    require(stats.requests == drafted_.size(), "requests are those that were started");
    if (dice_.one_in(2000)) clear();
  }

 private:
  // Makes the call on both. Returns true if both did it, false if both refused it with `Error`.
  template <class Error, class Call>
  bool both(Call call) {
    int done = 0;
    for (auto& index : indexes_) {
      try {
        call(*index);
        ++done;
      } catch (const Error&) {
      }
    }
    require(done != 1, "both indexes answer the same");
    totals_.refused += done == 0;
    return done == 2;
  }

  bool runs(const std::string& name) const { return drafted_.contains(name); }

  void start(const std::string& name) {
    const auto prompt = dice_.text(most_tokens_);
    const std::string tenant = "tenant-" + std::to_string(dice_.below(1 + dice_.below(30)));
    const float temperature = static_cast<float>(dice_.below(4));
    const auto begin = [&](Index& index) { index.start(name, tenant, prompt, temperature); };
    if (runs(name)) {
      require(!both<DuplicateRequest>(begin), "a name is taken once");
    } else if (both<OutOfRoom>(begin)) {
      drafted_[name] = {};
      tenants_[name] = tenant;
    }
  }

  void extend(const std::string& name) {
    std::vector<Token> tokens = dice_.text(most_tokens_);
    if (runs(name) && dice_.one_in(2)) {  // accept a part of the draft
      tokens = drafted_[name];
      tokens.resize(dice_.below(tokens.size() + 1));
      tokens.push_back(static_cast<Token>(dice_.below(5)));
    }
    const bool done = both<UnknownRequest>([&](Index& index) { index.extend(name, tokens); });
    require(done == runs(name), "running requests alone can be extended");
    if (done) drafted_[name].clear();
  }

  void predict(const std::string& name) {
    const auto tokens = dice_.text(most_tokens_);
    require(both<UnknownRequest>([&](Index& index) { index.predict(name, tokens); }) == runs(name),
            "running requests alone have predictions");
  }

  void finish(const std::string& name) {
    const bool keep = !dice_.one_in(5);
    if (runs(name) && dice_.one_in(2)) used_ = indexes_[0]->handle(name);
    require(both<UnknownRequest>([&](Index& index) { index.finish(name, keep); }) == runs(name),
            "running requests alone can end");
    drafted_.erase(name);
    tenants_.erase(name);
  }

  void finish_all() {
    while (!drafted_.empty()) finish(std::string(drafted_.begin()->first));
  }

  float survival() { return dice_.one_in(3) ? 0.0f : static_cast<float>(dice_.below(100)) / 99; }

  void propose(const std::string& name) {
    if (!runs(name)) return;
    const std::size_t most = dice_.one_in(10) ? dice_.below(kLongestDraft + 1) : dice_.below(17);
    const float least = survival();
    Room first(most);
    Room second(most);
    indexes_[0]->propose(name, least, first.draft);
    indexes_[1]->propose(name, least, second.draft);
    compare(name, first, second);
  }

  // After a part of the last draft and some other tokens. Sometimes only one index is asked, which
  // must not change its later drafts.
  void propose_after(const std::string& name) {
    if (!runs(name)) return;
    std::vector<Token> tokens = drafted_[name];
    tokens.resize(dice_.below(tokens.size() + 1));
    for (const Token token : dice_.text(300)) tokens.push_back(token);
    tokens.resize(std::min<std::size_t>(tokens.size(), kLongestDraft));
    const std::size_t most = dice_.one_in(10) ? dice_.below(kLongestDraft + 1) : dice_.below(17);
    const float before = survival();
    const float least = survival() * before;
    Room first(most);
    indexes_[0]->propose_after(name, tokens, before, least, first.draft);
    first.check(before, vocabulary_);
    totals_.grafted += static_cast<std::size_t>(first.draft.length);
    if (dice_.one_in(2)) return;
    Room second(most);
    indexes_[1]->propose_after(name, tokens, before, least, second.draft);
    require_equal(first, second);
  }

  // A step: one index is asked for all requests at once by handle, the other one by one by name.
  void advance() {
    std::vector<std::vector<Token>> texts;
    std::vector<std::unique_ptr<Room>> rooms[2];
    std::vector<std::string> names;
    for (const auto& [name, tokens] : drafted_) {
      if (dice_.one_in(3)) continue;
      names.push_back(name);
      texts.push_back(dice_.text(dice_.one_in(10) ? most_tokens_ : 4));
      const std::size_t most = dice_.below(20);
      for (auto& room : rooms) room.push_back(std::make_unique<Room>(most));
    }
    const float least = survival();
    std::vector<Query> queries;
    for (std::size_t row = 0; row < names.size(); ++row) {
      queries.push_back({indexes_[0]->handle(names[row]), texts[row], rooms[0][row]->draft});
    }
    indexes_[0]->advance(queries, least);
    for (std::size_t row = 0; row < names.size(); ++row) {
      indexes_[1]->extend(names[row], texts[row]);
    }
    for (std::size_t row = 0; row < names.size(); ++row) {
      Room& first = *rooms[0][row];
      Room& second = *rooms[1][row];
      first.draft.length = queries[row].draft.length;
      first.draft.predicted = queries[row].draft.predicted;
      if (!second.tokens.empty()) indexes_[1]->propose(names[row], least, second.draft);
      compare(names[row], first, second);
    }
    require_stale();
  }

  // The handle of an ended request must not find another one.
  void require_stale() {
    if (!used_) return;
    Room room(4);
    const std::vector<Token> tokens = {1};
    Query query{*used_, tokens, room.draft};
    try {
      indexes_[0]->advance({&query, 1}, 0.0f);
      require(false, "a handle is valid until its request ends");
    } catch (const UnknownRequest&) {
    }
  }

  void compare(const std::string& name, const Room& first, const Room& second) {
    first.check(1.0f, vocabulary_);
    require_equal(first, second);
    drafted_[name].assign(first.tokens.begin(), first.tokens.begin() + first.draft.length);
    totals_.drafted += static_cast<std::size_t>(first.draft.length);
    totals_.predicted += static_cast<std::size_t>(first.draft.predicted);
  }

  static void require_equal(const Room& first, const Room& second) {
    require(first.draft.length == second.draft.length, "both draft as many tokens");
    require(first.draft.predicted == second.draft.predicted, "both follow the prediction as far");
    for (std::size_t i = 0; i < static_cast<std::size_t>(first.draft.length); ++i) {
      require(first.tokens[i] == second.tokens[i], "both draft the same tokens");
      require(first.survival[i] == second.survival[i], "both are as sure of them");
    }
  }

  // Calls that change nothing.
  void wrong(const std::string& name) {
    const auto refuse = [&](auto call) {
      require(!both<BadInput>(call), "wrong input is refused");
    };
    const std::string longest(Index::kLongestName + 1, 'n');
    const std::vector<Token> one = {1};
    refuse([&](Index& index) { index.start(longest, "tenant", one, 0.0f); });
    refuse([&](Index& index) { index.start("new", longest, one, 0.0f); });
    refuse([&](Index& index) { index.start("new", "tenant", {}, 0.0f); });
    refuse([&](Index& index) { index.start("", "tenant", std::vector<Token>{1}, 0.0f); });
    refuse([&](Index& index) { index.extend(name, {}); });
    refuse([&](Index& index) { index.predict(name, {}); });
    Room room(kLongestDraft + 1);
    refuse([&](Index& index) { index.propose(name, 0.5f, room.draft); });
    Room small(4);
    refuse([&](Index& index) { index.propose(name, std::nanf(""), small.draft); });
    refuse([&](Index& index) { index.propose(name, 1.5f, small.draft); });
    const std::vector<Token> good = {1, 2};
    const std::vector<Token> many(kLongestDraft + 1, 1);
    refuse([&](Index& index) { index.propose_after(name, {}, 0.5f, 0.5f, small.draft); });
    refuse([&](Index& index) { index.propose_after(name, many, 0.5f, 0.5f, small.draft); });
    refuse([&](Index& index) { index.propose_after(name, good, -0.5f, 0.5f, small.draft); });
    refuse([&](Index& index) {
      index.propose_after(name, good, std::nanf(""), 0.5f, small.draft);
    });
    refuse([&](Index& index) { index.propose_after(name, good, 0.5f, 1.5f, small.draft); });
    refuse([&](Index& index) { index.propose_after(name, good, 0.5f, 0.5f, room.draft); });
    if (!runs(name)) return;
    refuse([&](Index& index) { index.clear(); });
  }

  void clear() {
    finish_all();
    require(both<BadInput>([](Index& index) { index.clear(); }), "an idle index can be cleared");
    require(indexes_[0]->stats().bytes == 0, "an empty index uses nothing");
  }

  enum class Load { kDone, kRefused, kFull };

  // Requests may be running. The answers that end here are not in the file.
  void save_and_load() {
    indexes_[0]->save(path_, "model");
    if (dice_.one_in(2)) finish_all();
    switch (dice_.below(4)) {
      case 0:
        damage();
        refuse("model");
        break;
      case 1: refuse("another"); break;
      case 2:
        forge();
        load(true);
        break;
      default:
        if (dice_.one_in(3)) load_elsewhere();
        load(false);
    }
  }

  // Only one index is asked, which must not change its later drafts or loads.
  void refuse(const char* identity) {
    const std::string before = contents();
    require(loaded_by(0, identity) == Load::kRefused,
            "a damaged file, or one of another model, is refused");
    require(contents() == before, "a file that is refused changes nothing");
    ++totals_.refused;
  }

  void load(bool is_forged) {
    if (dice_.one_in(4)) {
      for (Loaded& each : loaded_) each = {};
    }
    const std::string before = is_forged ? contents() : "";
    const auto learnt = models();
    const std::size_t had = tokens_so_far();
    const Load done = load_by_both();
    require(is_forged || done != Load::kRefused, "a saved file is not refused");
    require(done != Load::kFull || !drafted_.empty(), "without requests there is room for a file");
    if (done == Load::kRefused) require(contents() == before, "a refused file changes nothing");
    if (done == Load::kDone) {
      const std::size_t has = tokens_so_far();
      require(has >= had, "a load adds");
      require(load_by_both() != Load::kRefused, "a file that was loaded is not refused");
      require(tokens_so_far() == has, "answers that were loaded add nothing");
    }
    for (const auto& [tenant, model] : learnt) {
      require(is_model(*indexes_[0], tenant, model), "running requests keep their calibration");
    }
    totals_.refused += done != Load::kDone;
    totals_.loaded += done == Load::kDone;
    totals_.during += done == Load::kDone && !drafted_.empty();
    totals_.forged += done == Load::kDone && is_forged;
  }

  Load loaded_by(std::size_t which, const char* identity) {
    try {
      indexes_[which]->load(path_, identity, loaded_[which]);
      return Load::kDone;
    } catch (const BadSnapshot&) {
      return Load::kRefused;
    } catch (const OutOfRoom&) {
      return Load::kFull;
    }
  }

  Load load_by_both() {
    const Load first = loaded_by(0, "model");
    require(loaded_by(1, "model") == first, "both indexes load the same");
    return first;
  }

  // Loads the file into an index with room for everything, and what that saves into another one.
  void load_elsewhere() {
    const std::string copies[] = {path_ + "-first", path_ + "-second"};
    const std::string* from = &path_;
    for (const std::string& copy : copies) {
      Index roomy(4 * capacity_bytes_, vocabulary_, dice_.below(1000));
      Loaded none;
      roomy.load(*from, "model", none);
      require(roomy.stats().evicted_tokens == 0, "nothing is evicted where there is room");
      for (int i = 0; i < 30; ++i) {
        const std::string tenant = "tenant-" + std::to_string(i);
        const auto model = indexes_[0]->model_of(tenant);
        require(!model || is_model(roomy, tenant, *model), "a load takes the file's calibration");
      }
      roomy.save(copy, "model");
      require(answers_in(copy) == answers_in(path_), "a file is loaded to its last token");
      from = &copy;
    }
    require(read(copies[0]) == read(copies[1]), "a loaded index saves what it has loaded");
  }

  // The tokens of a sound file by tenant. Long answers are loaded in pieces, so gaps are left out.
  static std::map<std::string, std::vector<Token>> answers_in(const std::string& path) {
    SnapshotReader reader(path, std::numeric_limits<std::uint64_t>::max());
    const auto read_name = [&] {
      std::string name(reader.read_count(), ' ');
      reader.read(name);
      return name;
    };
    reader.read_count();  // the vocabulary
    read_name();          // the identity
    std::map<std::string, std::vector<Token>> answers;
    for (std::string name = read_name(); !name.empty(); name = read_name()) {
      std::vector<char> model(sizeof(Model));
      reader.read(model);
      std::vector<Token>& all = answers[name];
      while (const std::uint64_t size = reader.read_count()) {
        std::vector<Token> tokens(size);
        reader.read({reinterpret_cast<char*>(tokens.data()), size * sizeof(Token)});
        std::ranges::copy_if(tokens, std::back_inserter(all), [](Token t) { return t != kGap; });
      }
    }
    reader.finish();
    return answers;
  }

  // All that can be seen of the first index without a request.
  std::string contents() {
    const std::string path = path_ + "-contents";
    indexes_[0]->save(path, "model");
    const Stats stats = indexes_[0]->stats();
    return read(path).append(reinterpret_cast<const char*>(&stats), sizeof(stats));
  }

  // How many tokens have come into the first index's answers, and were not cleared.
  std::size_t tokens_so_far() {
    const Stats stats = indexes_[0]->stats();
    return stats.tokens + stats.evicted_tokens;
  }

  // What the tenants of running requests have learnt.
  std::map<std::string, Model> models() {
    std::map<std::string, Model> learnt;
    for (const auto& [name, tenant] : tenants_) {
      learnt.emplace(tenant, indexes_[0]->model_of(tenant).value());
    }
    return learnt;
  }

  static bool is_model(Index& index, const std::string& tenant, const Model& model) {
    const auto its = index.model_of(tenant);
    return its && std::memcmp(&*its, &model, sizeof(model)) == 0;
  }

  static std::string read(const std::string& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return std::move(bytes).str();
  }
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  // Change a few words, cut or repeat a part, and correct the length and the checksum.
  void forge() {
    constexpr std::size_t kHeader = 32;
    std::string bytes = read(path_);
    for (std::size_t changes = 1 + dice_.below(4); changes > 0; --changes) {
      const std::size_t at = kHeader + dice_.below(bytes.size() - kHeader);
      constexpr std::uint32_t kWords[] = {0, 1, 0x7F800000, 0x7FC00000, 0xFFFFFFFF, 0x80000000,
                                          1000, 0x7F7FFFFF};
      const std::uint32_t word = kWords[dice_.below(std::size(kWords))];
      const std::size_t aligned = at / 4 * 4;
      if (aligned + 4 > bytes.size()) continue;
      std::memcpy(bytes.data() + aligned, &word, 4);
    }
    if (dice_.one_in(4)) bytes.resize(kHeader + dice_.below(bytes.size() - kHeader));
    if (dice_.one_in(4)) bytes += bytes.substr(kHeader + dice_.below(bytes.size() - kHeader));
    Checksum checksum;
    checksum.add({bytes.data() + kHeader, bytes.size() - kHeader});
    const std::uint64_t fields[] = {bytes.size() - kHeader, checksum.value()};
    std::memcpy(bytes.data() + 16, fields, sizeof(fields));
    write(bytes);
  }

  // Flip a bit, cut, or add.
  void damage() {
    std::string bytes = read(path_);
    switch (dice_.below(3)) {
      case 0: bytes.resize(dice_.below(bytes.size())); break;
      case 1: bytes.append(1 + dice_.below(100), 'x'); break;
      default: {
        const std::size_t front = std::min<std::size_t>(bytes.size(), 100);
        char& byte = bytes[dice_.below(dice_.one_in(2) ? bytes.size() : front)];
        byte = static_cast<char>(byte ^ (1 << dice_.below(8)));
      }
    }
    write(bytes);
  }

  Dice& dice_;
  std::string path_;
  Totals& totals_;
  std::size_t capacity_bytes_;
  std::size_t most_tokens_;
  std::uint64_t vocabulary_;
  std::unique_ptr<Index> indexes_[2];
  Loaded loaded_[2];            // what each has loaded
  std::optional<Handle> used_;  // of an ended request
  std::map<std::string, std::vector<Token>> drafted_;  // running requests and their last drafts
  std::map<std::string, std::string> tenants_;         // of running requests
};

}  // namespace
}  // namespace sanitize

int main(int count, char** arguments) {
  sanitize::require(count == 4, "fuzz SECONDS SEED FOLDER");
  const sanitize::Clock clock(std::atof(arguments[1]));
  std::uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
  sanitize::Totals totals;
  std::size_t episodes = 0;
  for (; !clock.is_over(); ++episodes) {
    sanitize::Dice dice(seed++);
    sanitize::Episode episode(dice, arguments[3], totals);
    for (int i = 0; i < 3000 && !clock.is_over(); ++i) episode.step();
  }
  std::printf("%zu episodes, %zu calls, %zu refused, %zu drafted, %zu predicted, %zu grafted, "
              "%zu evicted, %zu loaded, of those %zu during requests and %zu forged\n",
              episodes, totals.calls, totals.refused, totals.drafted, totals.predicted,
              totals.grafted, totals.evicted, totals.loaded, totals.during, totals.forged);
}
