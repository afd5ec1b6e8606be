// Loops compiled for several kinds of x86-64 CPU; the loader takes the best one that runs here.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define SPECGATE_CLONES __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define SPECGATE_CLONES
#endif
