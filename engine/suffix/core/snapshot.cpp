// Saves and loads the finished answers and the model of every tenant.
//
// A file is a header followed by a payload. The header's checksum covers the payload, and the whole
// file is verified before anything is added to the index. Only texts are stored; the loading index
// builds its own tables, with its own salt. Numbers are in native byte order, which the magic number
// reveals. A file is written under a temporary name and renamed, so a crash keeps the old one.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "errors.hpp"
#include "index.hpp"
#include "tenant.hpp"

namespace specgate::suffix {

namespace {

constexpr std::uint64_t kMagic = 0x58465355'45544753u;  // "SGTEUSFX" where bytes run upwards
constexpr std::uint32_t kVersion = 3;

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t model_bytes;  // a different size of the model counts as another version
  std::uint64_t payload_bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == 32);

// Multiply-and-fold checksum over eight bytes at a time. Detects damage, not forgery.
class Checksum {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const unsigned char*>(data);
    for (; bytes >= 8; from += 8, bytes -= 8) {
      std::uint64_t word;
      std::memcpy(&word, from, 8);
      mix(word);
    }
    std::uint64_t rest = bytes;
    for (std::size_t i = 0; i < bytes; ++i) rest = rest << 8 | from[i];
    mix(rest);
  }
  std::uint64_t value() const { return state_; }

 private:
  void mix(std::uint64_t word) {
    const auto product = static_cast<unsigned __int128>(state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    state_ += 0xD6E8FEB86659FD93u;
  }
  std::uint64_t state_ = 0x2545F4914F6CDD1Du;
};

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

class File {
 public:
  File(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags, 0600)) {
    if (descriptor_ < 0) fail("cannot open the snapshot");
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return descriptor_; }

  void write(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(descriptor_, from, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot write the snapshot");
      from += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }

 private:
  int descriptor_;
};

// Writes the payload and computes the header.
class Writer {
 public:
  explicit Writer(File& file) : file_(&file) {}

  void put(const void* data, std::size_t bytes) {
    checksum_.add(data, bytes);
    bytes_ += bytes;
    file_->write(data, bytes);
  }
  void put_count(std::uint64_t count) { put(&count, sizeof(count)); }

  Header header() const { return {kMagic, kVersion, sizeof(Model), bytes_, checksum_.value()}; }

 private:
  File* file_;
  Checksum checksum_;
  std::uint64_t bytes_ = 0;
};

class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    const File file(path, O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (::fstat(file.descriptor(), &status) != 0) fail("cannot read the snapshot");
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ < sizeof(Header)) throw BadSnapshot("the file is too short to be a snapshot");
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (data_ == MAP_FAILED) fail("cannot read the snapshot");
  }
  ~Mapped() { ::munmap(data_, size_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  std::span<const unsigned char> bytes() const {
    return {static_cast<const unsigned char*>(data_), size_};
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Reads one part after another and never past the end.
class Reader {
 public:
  explicit Reader(std::span<const unsigned char> bytes) : rest_(bytes) {}

  std::span<const unsigned char> take(std::uint64_t bytes) {
    if (bytes > rest_.size()) throw BadSnapshot("the snapshot is damaged: a part is cut off");
    const auto part = rest_.first(static_cast<std::size_t>(bytes));
    rest_ = rest_.subspan(part.size());
    return part;
  }
  std::uint64_t take_count() {
    std::uint64_t count;
    std::memcpy(&count, take(sizeof(count)).data(), sizeof(count));
    return count;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const unsigned char> rest_;
};

// Computes the checksum while reading. Padding depends on where a part ends, so it is computed over
// the same parts as when writing.
class CheckedReader : public Reader {
 public:
  using Reader::Reader;
  std::span<const unsigned char> take(std::uint64_t bytes) {
    const auto part = Reader::take(bytes);
    checksum_.add(part.data(), part.size());
    return part;
  }
  std::uint64_t take_count() {
    std::uint64_t count;
    std::memcpy(&count, take(sizeof(count)).data(), sizeof(count));
    return count;
  }
  std::uint64_t checksum() const { return checksum_.value(); }

 private:
  Checksum checksum_;
};

struct SavedTenant {
  std::string name;
  std::vector<std::span<const unsigned char>> texts;
  Model model;
};

std::vector<SavedTenant> parse(std::span<const unsigned char> bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) throw BadSnapshot("the file is not a snapshot of a suffix index");
  if (header.version != kVersion || header.model_bytes != sizeof(Model)) {
    throw BadSnapshot("the snapshot was written by another version");
  }
  const auto payload = bytes.subspan(sizeof(header));
  if (payload.size() != header.payload_bytes) {
    throw BadSnapshot("the snapshot is damaged: its length is wrong");
  }
  CheckedReader reader(payload);
  std::vector<SavedTenant> tenants;
  for (std::uint64_t left = reader.take_count(); left > 0; --left) {
    SavedTenant& tenant = tenants.emplace_back();
    const auto name = reader.take(reader.take_count());
    tenant.name.assign(name.begin(), name.end());
    std::memcpy(&tenant.model, reader.take(sizeof(Model)).data(), sizeof(Model));
    for (std::uint64_t texts = reader.take_count(); texts > 0; --texts) {
      tenant.texts.push_back(reader.take(reader.take_count() * sizeof(Token)));
    }
  }
  if (!reader.at_end() || reader.checksum() != header.checksum) {
    throw BadSnapshot("the snapshot is damaged: its checksum is wrong");
  }
  return tenants;
}

std::vector<std::vector<Token>> answers_of(const Text& text) {
  std::vector<std::vector<Token>> answers(1);
  for (Position at = text.begin(); at != text.end(); ++at) {
    if (text[at] != kGap) answers.back().push_back(text[at]);
    else if (!answers.back().empty()) answers.emplace_back();
  }
  if (answers.back().empty()) answers.pop_back();
  return answers;
}

}  // namespace

void Index::save(const std::string& path) {
  std::scoped_lock lock(mutex_);
  const std::string partial = path + ".partial";
  try {
    File file(partial, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC);
    Writer writer(file);
    const Header blank{};
    file.write(&blank, sizeof(blank));
    std::vector<const Tenant*> order;
    for (const auto& [name, tenant] : tenants_) order.push_back(tenant.get());
    std::sort(order.begin(), order.end(), [](const Tenant* a, const Tenant* b) {
      return a->last_used != b->last_used ? a->last_used < b->last_used : a->name < b->name;
    });
    writer.put_count(order.size());
    for (const Tenant* tenant : order) {
      writer.put_count(tenant->name.size());
      writer.put(tenant->name.data(), tenant->name.size());
      writer.put(&tenant->model, sizeof(Model));
      const auto answers = answers_of(tenant->store.text());
      writer.put_count(answers.size());
      for (const auto& answer : answers) {
        writer.put_count(answer.size());
        writer.put(answer.data(), answer.size() * sizeof(Token));
      }
    }
    const Header header = writer.header();
    if (::lseek(file.descriptor(), 0, SEEK_SET) != 0) fail("cannot write the snapshot");
    file.write(&header, sizeof(header));
    if (::fsync(file.descriptor()) != 0) fail("cannot write the snapshot");
    if (::rename(partial.c_str(), path.c_str()) != 0) fail("cannot rename the snapshot");
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
}

void Index::load(const std::string& path) {
  std::scoped_lock lock(mutex_);
  drop_all();
  const Mapped file(path);
  const std::vector<SavedTenant> saved = parse(file.bytes());
  for (const SavedTenant& from : saved) {
    Tenant& tenant = tenant_of(from.name);
    tenant.last_used = ++clock_;
    tenant.model = from.model;
    for (const auto bytes : from.texts) {
      std::vector<Token> tokens(bytes.size() / sizeof(Token));
      std::memcpy(tokens.data(), bytes.data(), bytes.size());
      if (std::any_of(tokens.begin(), tokens.end(), [](Token token) { return token < 0; })) continue;
      if (!tokens.empty()) keep(tenant, tokens);
    }
  }
}

}  // namespace specgate::suffix
