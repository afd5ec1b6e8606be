// The memory of an index: a fixed number of equal blocks, allocated and freed in O(1).
//
// Texts and tables consist of these blocks only, so the memory bound is exact and a tenant's share
// is a number of blocks. Blocks are cut from 2 MiB slabs that the kernel may back with huge pages.
// Without huge pages nearly every lookup in an index of 100 M tokens would miss the TLB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace specgate::suffix {

inline constexpr std::size_t kBlockBytes = 16384;
inline constexpr std::size_t kSlabBytes = std::size_t{2} << 20;

class BlockPool {
 public:
  explicit BlockPool(std::size_t capacity_bytes);

  // Makes sure that `blocks` blocks can be taken. Returns false if fewer are free, or if the system
  // has no memory for them.
  bool reserve(std::size_t blocks);

  // Returns a zeroed block. It must have been reserved.
  void* take();
  void give_back(void* block);  // never allocates, because destructors call it

  // Counts memory outside the pool against its capacity. Returns false if too few blocks are free.
  bool charge(std::size_t blocks);
  void refund(std::size_t blocks) { used_ -= blocks; }

  std::size_t used_blocks() const { return used_; }
  std::size_t capacity_blocks() const { return capacity_; }
  std::size_t free_blocks() const { return capacity_ - used_; }

 private:
  struct Free {
    void operator()(void* slab) const;
  };
  // A block that was given back; they form a list.
  struct Returned {
    Returned* next;
  };

  std::size_t ready_blocks() const;
  void add_slab();

  std::size_t capacity_;
  std::size_t used_ = 0;
  std::size_t cut_ = 0;  // blocks cut from the slabs so far
  std::size_t returned_count_ = 0;
  Returned* returned_ = nullptr;
  std::vector<std::unique_ptr<void, Free>> slabs_;
};

}  // namespace specgate::suffix
