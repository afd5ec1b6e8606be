// The memory of an index: equal blocks, a fixed number of them, given out and taken back at O(1).
//
// Texts and tables are made of these blocks alone, so the bound on memory is exact and a tenant's
// share is a count. Blocks are cut from 2 MiB slabs that may become huge pages: at 100 M tokens
// nearly every look-up would otherwise miss the TLB too.
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

  // A zeroed block, or null when all are in use.
  void* take();
  void give_back(void* block);

  // Count memory outside the pool as if it were blocks of it; false when there are not so many.
  bool charge(std::size_t blocks);
  void refund(std::size_t blocks) { used_ -= blocks; }

  std::size_t used_blocks() const { return used_; }
  std::size_t capacity_blocks() const { return capacity_; }
  std::size_t free_blocks() const { return capacity_ - used_; }

 private:
  struct Free {
    void operator()(void* slab) const;
  };

  void* cut();

  std::size_t capacity_;
  std::size_t used_ = 0;
  std::size_t cut_ = 0;  // blocks of all slabs that were ever given out
  std::vector<std::unique_ptr<void, Free>> slabs_;
  std::vector<void*> returned_;
};

}  // namespace specgate::suffix
