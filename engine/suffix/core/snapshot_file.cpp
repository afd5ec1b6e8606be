#include "snapshot_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "calibration.hpp"
#include "errors.hpp"

namespace specgate::suffix {

namespace {

constexpr std::uint64_t kMagic = 0x58465355'45544753u;  // "SGTEUSFX" where bytes run upwards
constexpr std::uint32_t kVersion = 5;
constexpr std::size_t kBufferBytes = std::size_t{1} << 18;

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t model_bytes;  // a different size of the calibration counts as another version
  std::uint64_t payload_bytes;
  std::uint64_t checksum;     // of the payload
};
static_assert(sizeof(Header) == 32);

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int opened(const std::string& path, int flags) {
  const int number = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (number < 0) fail("cannot open the snapshot");
  return number;
}

void write_all(int file, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write the snapshot");
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void read_all(int file, void* data, std::size_t bytes) {
  auto* into = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(file, into, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read the snapshot");
    if (got == 0) throw BadSnapshot("the snapshot is damaged: a part is cut off");
    into += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

// A file of an earlier save that was interrupted may have any mode, or be a link.
int created(const std::string& path) {
  ::unlink(path.c_str());
  return opened(path, O_WRONLY | O_CREAT | O_EXCL);
}

// Without this the rename may be lost with the power.
void sync_folder_of(const std::string& path) {
  const std::size_t end = path.find_last_of('/');
  const std::string folder = end == std::string::npos ? "." : path.substr(0, end + 1);
  const Descriptor file(opened(folder, O_RDONLY | O_DIRECTORY));
  // Some file systems cannot do this for a folder, and say so.
  if (::fsync(file.number()) != 0 && errno != EINVAL) fail("cannot write the snapshot");
}

}  // namespace

void Checksum::mix(std::uint64_t word) {
  const auto product = static_cast<unsigned __int128>(state_ ^ word) * 0x9E3779B97F4A7C15u;
  state_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  state_ += 0xD6E8FEB86659FD93u;
}

void Checksum::add(std::span<const char> part) {
  for (; part.size() >= 8; part = part.subspan(8)) {
    std::uint64_t word;
    std::memcpy(&word, part.data(), 8);
    mix(word);
  }
  if (part.empty()) return;
  std::uint64_t word = part.size();
  for (const char byte : part) word = word << 8 | static_cast<unsigned char>(byte);
  mix(word);
}

Descriptor::~Descriptor() { ::close(number_); }

SnapshotWriter::SnapshotWriter(const std::string& path)
    : path_(path), partial_(path + ".partial"), file_(created(partial_)) {
  const Header blank{};
  try {
    write_all(file_.number(), &blank, sizeof(blank));
  } catch (...) {
    ::unlink(partial_.c_str());
    throw;
  }
}

SnapshotWriter::~SnapshotWriter() {
  if (!is_committed_) ::unlink(partial_.c_str());
}

void SnapshotWriter::write(std::span<const char> piece) {
  buffer_.insert(buffer_.end(), piece.begin(), piece.end());
  if (buffer_.size() >= kBufferBytes) flush(buffer_.size() / 8 * 8);
}

void SnapshotWriter::flush(std::size_t bytes) {
  const auto part = std::span<const char>(buffer_).first(bytes);
  checksum_.add(part);
  bytes_ += bytes;
  write_all(file_.number(), part.data(), bytes);
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes));
}

void SnapshotWriter::commit() {
  flush(buffer_.size());
  const Header header{kMagic, kVersion, sizeof(Model), bytes_, checksum_.value()};
  if (::lseek(file_.number(), 0, SEEK_SET) != 0) fail("cannot write the snapshot");
  write_all(file_.number(), &header, sizeof(header));
  if (::fsync(file_.number()) != 0) fail("cannot write the snapshot");
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("cannot rename the snapshot");
  is_committed_ = true;
  sync_folder_of(path_);
}

// Without O_NONBLOCK a pipe would make it wait for a writer.
SnapshotReader::SnapshotReader(const std::string& path, std::uint64_t most_bytes)
    : file_(opened(path, O_RDONLY | O_NONBLOCK)) {
  struct stat status {};
  if (::fstat(file_.number(), &status) != 0) fail("cannot read the snapshot");
  if (S_ISDIR(status.st_mode)) throw std::system_error(EISDIR, std::generic_category());
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || size < sizeof(Header)) {
    throw BadSnapshot("the file is too short to be a snapshot");
  }
  Header header;
  read_all(file_.number(), &header, sizeof(header));
  if (header.magic != kMagic) throw BadSnapshot("the file is not a snapshot of a suffix index");
  if (header.version != kVersion || header.model_bytes != sizeof(Model)) {
    throw BadSnapshot("the snapshot was written by another version");
  }
  if (size - sizeof(Header) != header.payload_bytes) {
    throw BadSnapshot("the snapshot is damaged: its length is wrong");
  }
  if (size > most_bytes) throw BadSnapshot("the snapshot is larger than the index may be");
  checksum_of_header_ = header.checksum;
  unread_ = header.payload_bytes;
  buffer_.resize(kBufferBytes);
}

void SnapshotReader::fill() {
  const std::size_t bytes = std::min<std::uint64_t>(kBufferBytes, unread_);
  if (bytes == 0) throw BadSnapshot("the snapshot is damaged: a part is cut off");
  read_all(file_.number(), buffer_.data(), bytes);
  unread_ -= bytes;
  rest_ = std::span<const char>(buffer_).first(bytes);
  checksum_.add(rest_);
}

void SnapshotReader::read(std::span<char> into) {
  while (!into.empty()) {
    if (rest_.empty()) fill();
    const std::size_t size = std::min(into.size(), rest_.size());
    std::memcpy(into.data(), rest_.data(), size);
    into = into.subspan(size);
    rest_ = rest_.subspan(size);
  }
}

std::uint64_t SnapshotReader::read_count() {
  std::uint64_t count;
  read({reinterpret_cast<char*>(&count), sizeof(count)});
  return count;
}

void SnapshotReader::finish() {
  if (!rest_.empty() || unread_ > 0 || checksum_.value() != checksum_of_header_) {
    throw BadSnapshot("the snapshot is damaged: its checksum is wrong");
  }
}

}  // namespace specgate::suffix
