#include "block_pool.hpp"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <utility>

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
  ::operator delete(slab, std::align_val_t{kSlabBytes});
}

std::size_t BlockPool::ready_blocks() const {
  return returned_count_ + slabs_.size() * kBlocksPerSlab - cut_;
}

bool BlockPool::reserve(std::size_t blocks) {
  if (blocks > free_blocks()) return false;
  try {
    while (ready_blocks() < blocks) add_slab();
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void BlockPool::add_slab() {
  std::unique_ptr<void, Free> slab(::operator new(kSlabBytes, std::align_val_t{kSlabBytes}));
  // Only advice: without huge pages the kernel uses small ones.
  ::madvise(slab.get(), kSlabBytes, MADV_HUGEPAGE);
  ASAN_POISON_MEMORY_REGION(slab.get(), kSlabBytes);
  slabs_.push_back(std::move(slab));
}

void* BlockPool::take() {
  void* block = returned_;
  if (block != nullptr) {
    returned_ = returned_->next;
    --returned_count_;
  } else {
    void* slab = slabs_[cut_ / kBlocksPerSlab].get();
    block = static_cast<char*>(slab) + cut_ % kBlocksPerSlab * kBlockBytes;
    ++cut_;
  }
  ++used_;
  ASAN_UNPOISON_MEMORY_REGION(block, kBlockBytes);
  return std::memset(block, 0, kBlockBytes);
}

void BlockPool::give_back(void* block) {
  returned_ = new (block) Returned{returned_};
  ++returned_count_;
  --used_;
  ASAN_POISON_MEMORY_REGION(returned_ + 1, kBlockBytes - sizeof(Returned));
}

bool BlockPool::charge(std::size_t blocks) {
  if (blocks > free_blocks()) return false;
  used_ += blocks;
  return true;
}

}  // namespace specgate::suffix
