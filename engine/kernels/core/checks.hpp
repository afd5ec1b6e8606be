// Checks of what Python passes by address, before any of it is read. They are compiled in with
// SPECGATE_CHECKED (CMake's option of that name, and the sanitizers' programs); otherwise they cost
// nothing.
#pragma once

#include "attention.hpp"
#include "packed_weight.hpp"

namespace specgate::kernels {

#if defined(SPECGATE_CHECKED)
inline constexpr bool kIsChecked = true;
#else
inline constexpr bool kIsChecked = false;
#endif

// Throws std::invalid_argument unless `count` numbers from an address on are aligned memory of this
// process; under AddressSanitizer, unless they are memory that may be used.
template <class Number>
void check_numbers(const Number* from, std::size_t count, const char* what);

// Throws std::out_of_range for a request outside of the queries, its block table or the cache, and
// std::invalid_argument as above, or if strides overlap.
template <class Number>
void check(const Requests& requests, const PagedCache<Number>& cache,
           const Queries<Number>& queries);

}  // namespace specgate::kernels
