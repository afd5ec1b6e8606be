// Saves and loads the finished answers and the calibration of every tenant.
//
// A save copies one bounded piece after another under the lock, and writes it without the lock.
// Tenants are copied one by one, so each is as of a slightly different moment:
//   - its calibration and the end of its text are those of the moment when its copy began;
//   - a position's token never changes, so what is copied later still belongs to that text;
//   - what is evicted before its turn is missing. A gap takes its place, so that no context spans it.
// Tenants that come later are not in the file, and neither is the text of running requests. Only
// texts are stored; the loading index builds its own tables, with its own salt.
//
// A load adds one answer after another, each under the lock. Workers load each other's files and save
// what they have, so most answers of a fleet are in several files. `Loaded` knows them by hash.
//
// Payload: vocabulary, identity, then for each tenant its name, model and parts of its text. Names
// and parts have their sizes in front; size 0 ends a list.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "index.hpp"
#include "snapshot_file.hpp"
#include "tenant.hpp"

namespace specgate::suffix {

namespace {

// A piece of this size is copied in some 0.1 ms, at most 0.3 ms from cold memory. Calls that wait
// for the lock go first during the pause. After it the copying thread has a new time slice, so it is
// rarely interrupted while it holds the lock.
constexpr std::size_t kPieceBytes = std::size_t{1} << 18;
constexpr auto kPause = std::chrono::microseconds(200);

constexpr std::size_t kLongestIdentity = 4096;  // bytes

template <class T>
std::span<const char> bytes_of(std::span<const T> items) {
  return {reinterpret_cast<const char*>(items.data()), items.size_bytes()};
}

void put(std::vector<char>& piece, std::span<const char> bytes) {
  piece.insert(piece.end(), bytes.begin(), bytes.end());
}

void put_count(std::vector<char>& piece, std::uint64_t count) {
  put(piece, bytes_of(std::span<const std::uint64_t>(&count, 1)));
}

void put_text(std::vector<char>& piece, std::span<const Token> tokens) {
  put_count(piece, tokens.size());
  put(piece, bytes_of(tokens));
}

void put_name(std::vector<char>& piece, std::string_view name) {
  put_count(piece, name.size());
  put(piece, name);
}

std::uint64_t read_size(SnapshotReader& reader, std::uint64_t most) {
  const std::uint64_t size = reader.read_count();
  if (size > most) throw BadSnapshot("the snapshot is damaged: a part is too long");
  return size;
}

std::string read_name(SnapshotReader& reader, std::uint64_t most) {
  std::string name(read_size(reader, most), '\0');
  reader.read(name);
  return name;
}

// Returns text from a file in a form that can be logged.
std::string printable(std::string text) {
  constexpr std::size_t kMost = 300;
  if (text.size() > kMost) text.resize(kMost);
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string described(const std::string& identity, std::uint64_t vocabulary) {
  return "\"" + printable(identity) + "\" with " + std::to_string(vocabulary) + " tokens";
}

}  // namespace

// What a save has still to copy.
struct Index::Copying {
  struct Source {
    std::string name;
    std::uint64_t number;
    std::uint64_t last_used;
  };
  std::vector<Source> tenants;  // in order of their last use
  std::size_t at = 0;           // the tenant that is being copied
  bool has_begun = false;       // whether its name and model are copied
  Position next = 0;            // of its text
  Position end = 0;

  bool is_done() const { return at == tenants.size(); }
};

Index::Copying Index::begin_copy() {
  std::scoped_lock lock(mutex_);
  Copying copying;
  copying.tenants.reserve(tenants_.size());
  for (const auto& [name, tenant] : tenants_) {
    copying.tenants.push_back({name, tenant->number, tenant->last_used});
  }
  std::ranges::sort(copying.tenants, {}, &Copying::Source::last_used);
  return copying;
}

void Index::copy_piece(Copying& copying, std::vector<char>& piece) {
  std::scoped_lock lock(mutex_);
  while (piece.size() < kPieceBytes && !copying.is_done()) {
    const Copying::Source& source = copying.tenants[copying.at];
    const auto found = tenants_.find(source.name);
    const bool is_there = found != tenants_.end() && found->second->number == source.number;
    if (is_there && !copying.has_begun) {
      const Tenant& tenant = *found->second;
      put_name(piece, tenant.name);
      put(piece, bytes_of(std::span(&tenant.model, 1)));
      copying.next = tenant.store.text().begin();
      copying.end = tenant.store.text().end();
      copying.has_begun = true;
    }
    if (is_there && copy_text(found->second->store.text(), copying, piece)) continue;
    if (copying.has_begun) put_count(piece, 0);
    copying.has_begun = false;
    ++copying.at;
  }
}

bool Index::copy_text(const Text& text, Copying& copying, std::vector<char>& piece) {
  // How far the end is from the front; negative if all of the text was evicted.
  const auto left = static_cast<std::int32_t>(copying.end - text.begin());
  if (left <= 0 || copying.next == copying.end) return false;
  if (!text.contains(copying.next)) {
    put_text(piece, std::span(&kGap, 1));
    copying.next = text.begin();
  }
  auto tokens = text.from(copying.next);
  tokens = tokens.first(std::min<std::size_t>(tokens.size(), copying.end - copying.next));
  put_text(piece, tokens);
  copying.next += static_cast<Position>(tokens.size());
  return true;
}

void Index::save(const std::string& path, std::string_view identity) {
  if (identity.size() > kLongestIdentity) throw BadInput("identity: over the limit of 4096 bytes");
  std::scoped_lock saving(saving_);
  SnapshotWriter file(path);
  std::vector<char> piece;
  piece.reserve(2 * kPieceBytes);  // a piece is exceeded by at most a name, a model and a part
  static_assert(sizeof(Model) + kBlockBytes + kLongestName < kPieceBytes);
  put_count(piece, vocabulary_);
  put_name(piece, identity);
  Copying copying = begin_copy();
  while (!copying.is_done()) {
    copy_piece(copying, piece);
    file.write(piece);
    piece.clear();
    std::this_thread::sleep_for(kPause);
  }
  put_count(piece, 0);
  file.write(piece);
  file.commit();
}

void Index::load(const std::string& path, std::string_view identity, Loaded& loaded) {
  // The first time only to see that it is sound.
  read_file(path, identity, [](const std::string&, const Model&) {}, [](std::span<const Token>) {});
  // Duplicates within a file are kept: they are votes.
  Loaded::Hashes added;
  std::string tenant;
  std::vector<Token> answer;
  std::size_t since_pause = 0;
  const auto end_answer = [&] {
    if (answer.empty()) return;
    const std::uint64_t hash = Loaded::hash(tenant, answer);
    if (!loaded.seen_.contains(hash)) {
      add_answer(tenant, answer);
      added.insert(hash);
      since_pause += answer.size();
    }
    answer.clear();
    if (since_pause < kTokensPerBlock) return;
    std::this_thread::sleep_for(kPause);
    since_pause = 0;
  };
  const auto begin = [&](const std::string& name, const Model& model) {
    end_answer();
    tenant = name;
    std::scoped_lock lock(mutex_);
    Tenant& found = tenant_of(name);
    if (found.last_used == 0) found.last_used = ++clock_;
    if (found.requests.empty()) found.model = model;
  };
  const auto add = [&](std::span<const Token> tokens) {
    for (const Token token : tokens) {
      if (token != kGap) answer.push_back(token);
      if (token == kGap || answer.size() == kTokensPerBlock) end_answer();
    }
  };
  try {
    read_file(path, identity, begin, add);
    end_answer();
  } catch (...) {
    loaded.seen_.merge(added);
    throw;
  }
  loaded.seen_.merge(added);
}

void Index::add_answer(const std::string& name, std::span<const Token> tokens) {
  std::scoped_lock lock(mutex_);
  const auto found = tenants_.find(name);  // it may have given way to another tenant
  if (found != tenants_.end()) keep(*found->second, tokens);
}

template <class Begin, class Add>
void Index::read_file(const std::string& path, std::string_view identity, const Begin& begin,
                      const Add& add) const {
  // No index of this capacity writes a larger file; names are outside of the capacity.
  const std::size_t capacity = pool_.capacity_blocks() * kBlockBytes;
  SnapshotReader reader(path, capacity + 2 * kMostTenants * kLongestName);
  require_same(reader, identity);
  const auto is_possible = [this](Token token) { return token == kGap || is_known(token); };
  std::vector<Token> tokens;
  while (true) {
    const std::string name = read_name(reader, kLongestName);
    if (name.empty()) break;
    Model model{kPrior};
    reader.read({reinterpret_cast<char*>(&model), sizeof(model)});
    if (!model.is_sound()) throw BadSnapshot("the snapshot is damaged: it has an impossible value");
    begin(name, model);
    while (const std::uint64_t size = read_size(reader, kTokensPerBlock)) {
      tokens.resize(size);
      reader.read({reinterpret_cast<char*>(tokens.data()), size * sizeof(Token)});
      if (!std::ranges::all_of(tokens, is_possible)) {
        throw BadSnapshot("the snapshot is damaged: it has an impossible token");
      }
      add(tokens);
    }
  }
  reader.finish();
}

void Index::require_same(SnapshotReader& reader, std::string_view identity) const {
  const std::uint64_t vocabulary = reader.read_count();
  const std::string theirs = read_name(reader, kLongestIdentity);
  if (vocabulary == vocabulary_ && theirs == identity) return;
  throw BadSnapshot("the snapshot is of another model: " + described(theirs, vocabulary) +
                    "; this is " + described(std::string(identity), vocabulary_));
}

std::uint64_t Loaded::hash(std::string_view tenant, std::span<const Token> answer) {
  Checksum sum;
  sum.add(bytes_of(answer));
  return sum.value() ^ std::hash<std::string_view>{}(tenant);
}

}  // namespace specgate::suffix
