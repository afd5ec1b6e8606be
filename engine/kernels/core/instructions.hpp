// What this processor and this system let a process use.
#pragma once

namespace specgate::kernels {

enum class Tiles { kAbsent, kRefused, kUsable };

// Whether bfloat16 can be multiplied by AMX. Linux is asked for permission at the first call.
Tiles find_tiles();

}  // namespace specgate::kernels
