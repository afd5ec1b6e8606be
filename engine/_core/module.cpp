// The Python module engine._core: one submodule for each room of the engine that has C++.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace specgate {
namespace drafting { void bind(nb::module_& module); }
namespace heads { void bind(nb::module_& module); }
namespace kernels { void bind(nb::module_& module); }
namespace policy { void bind(nb::module_& module); }
namespace suffix { void bind(nb::module_& module); }
}  // namespace specgate

NB_MODULE(_core, module) {
  // A worker holds its gate, index and head until the interpreter ends, which nanobind would report
  // as leaks.
  nb::set_leak_warnings(false);

  const auto room = [&](const char* name) { return module.def_submodule(name); };
  nb::module_ policy = room("policy"), suffix = room("suffix"), drafting = room("drafting");
  nb::module_ heads = room("heads"), kernels = room("kernels");
  specgate::policy::bind(policy);
  specgate::suffix::bind(suffix);
  specgate::drafting::bind(drafting);  // its signatures name classes of the two before
  specgate::heads::bind(heads);
  specgate::kernels::bind(kernels);
}
