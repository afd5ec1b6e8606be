#include "block_pool.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

// Makes AddressSanitizer report any access to a block after it was given back.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#endif

namespace specgate::suffix {

namespace {
constexpr std::size_t kBlocksPerSlab = kSlabBytes / kBlockBytes;
}

BlockPool::BlockPool(std::size_t capacity_bytes) : capacity_(capacity_bytes / kBlockBytes) {}

void BlockPool::Free::operator()(void* slab) const {
  ASAN_UNPOISON_MEMORY_REGION(slab, kSlabBytes);
  std::free(slab);
}

void* BlockPool::take() {
  if (used_ == capacity_) return nullptr;
  void* block;
  if (returned_.empty()) {
    block = cut();
  } else {
    block = returned_.back();
    returned_.pop_back();
  }
  ++used_;
  ASAN_UNPOISON_MEMORY_REGION(block, kBlockBytes);
  return std::memset(block, 0, kBlockBytes);
}

void BlockPool::give_back(void* block) {
  ASAN_POISON_MEMORY_REGION(block, kBlockBytes);
  returned_.push_back(block);
  --used_;
}

bool BlockPool::charge(std::size_t blocks) {
  if (blocks > free_blocks()) return false;
  used_ += blocks;
  return true;
}

void* BlockPool::cut() {
  const std::size_t within = cut_ % kBlocksPerSlab;
  if (within == 0) {
    void* slab = std::aligned_alloc(kSlabBytes, kSlabBytes);
    if (slab == nullptr) throw std::bad_alloc();
    slabs_.emplace_back(slab);
    ASAN_POISON_MEMORY_REGION(slab, kSlabBytes);
    // Only advice: without huge pages the kernel uses small ones.
    ::madvise(slab, kSlabBytes, MADV_HUGEPAGE);
  }
  ++cut_;
  return static_cast<char*>(slabs_.back().get()) + within * kBlockBytes;
}

}  // namespace specgate::suffix
