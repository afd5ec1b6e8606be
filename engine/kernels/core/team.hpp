// The threads of an OpenMP region that go through the phases of a step together.
//
// They meet at barriers that spin: a step has hundreds, and waking a thread takes longer than most
// phases. Only threads within a region spin. Between steps they wait as OpenMP's settings say.
#pragma once

#include <omp.h>
#include <sched.h>

#include <atomic>
#include <cstddef>

namespace specgate::kernels {

class Team {
 public:
  // One of its threads, made inside the region by each of them.
  class Member {
   public:
    explicit Member(Team& team)
        : team_(team),
          number_(static_cast<std::size_t>(omp_get_thread_num())),
          size_(static_cast<std::size_t>(omp_get_num_threads())) {}

    std::size_t number() const { return number_; }

    // Waits for all members. What each wrote before can be read by all after.
    void meet() { team_.meet(size_); }

    // The next of the items 0, 1, ... that members share since they last met.
    std::size_t take() { return team_.ticket_.fetch_add(1, std::memory_order_relaxed); }

    // Where this member's part of `count` items begins; it ends at `end`.
    std::size_t begin(std::size_t count) const { return count * number_ / size_; }
    std::size_t end(std::size_t count) const { return count * (number_ + 1) / size_; }

   private:
    Team& team_;
    std::size_t number_;
    std::size_t size_;
  };

 private:
  // Tens of microseconds. A member that is later than that has lost its core, perhaps to one who waits for it.
  static constexpr int kSpins = 1000;

  void meet(std::size_t size) {
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
      arrived_.store(0, std::memory_order_relaxed);
      ticket_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
      if (spins < kSpins) {
        pause();
      } else {
        ::sched_yield();
      }
    }
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  alignas(64) std::atomic<std::size_t> arrived_{0};
  alignas(64) std::atomic<unsigned> round_{0};
  alignas(64) std::atomic<std::size_t> ticket_{0};
};

}  // namespace specgate::kernels
