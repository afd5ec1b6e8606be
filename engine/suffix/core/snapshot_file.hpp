// A file with a checksum, written and read one piece after another.
//
// It is written under a temporary name and renamed, so a crash leaves the old file or the new one. A
// file cannot be trusted to be whole: every read is checked for its end, and the caller checks what
// the bytes mean. Numbers are in native byte order, which the magic number reveals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace specgate::suffix {

// Multiply-and-fold checksum over eight bytes at a time. Detects damage, not forgery.
class Checksum {
 public:
  // Only the last part may have a size that is not a multiple of eight.
  void add(std::span<const char> part);
  std::uint64_t value() const { return state_; }

 private:
  void mix(std::uint64_t word);

  std::uint64_t state_ = 0x2545F4914F6CDD1Du;
};

// Closes its descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

class SnapshotWriter {
 public:
  // Throws std::system_error, as the other functions do.
  explicit SnapshotWriter(const std::string& path);
  ~SnapshotWriter();  // removes the temporary file unless `commit` has renamed it
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  void write(std::span<const char> piece);
  // Writes everything to the disk and replaces the file at `path`.
  void commit();

 private:
  void flush(std::size_t bytes);

  std::string path_;
  std::string partial_;
  Descriptor file_;
  bool is_committed_ = false;
  std::vector<char> buffer_;
  Checksum checksum_;
  std::uint64_t bytes_ = 0;
};

class SnapshotReader {
 public:
  // Throws BadSnapshot unless it is a whole file of this version, of at most `most_bytes`, and
  // std::system_error if it cannot be read.
  SnapshotReader(const std::string& path, std::uint64_t most_bytes);

  // Throws BadSnapshot if the file ends before.
  void read(std::span<char> into);
  std::uint64_t read_count();
  // Throws BadSnapshot unless everything was read and is undamaged.
  void finish();

 private:
  void fill();

  Descriptor file_;
  std::uint64_t checksum_of_header_ = 0;
  std::uint64_t unread_ = 0;  // bytes of the payload that are still in the file
  std::vector<char> buffer_;
  std::span<const char> rest_;  // of the buffer
  Checksum checksum_;
};

}  // namespace specgate::suffix
