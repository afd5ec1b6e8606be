// The extension engine._core: a submodule for each room that has C++.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

// Each stands at the end of its room's core/module.cpp.
namespace specgate {
namespace drafting { void bind_drafting(nb::module_& module); }
namespace heads { void bind_heads(nb::module_& module); }
namespace kernels { void bind_kernels(nb::module_& module); }
namespace policy { void bind_policy(nb::module_& module); }
namespace suffix { void bind_suffix(nb::module_& module); }
}  // namespace specgate

NB_MODULE(_core, module) {
  // A worker keeps its objects until the interpreter ends; nanobind would report them as leaks.
  nb::set_leak_warnings(false);

  const auto add = [&](const char* name, void (*bind)(nb::module_&)) {
    nb::module_ room = module.def_submodule(name);
    bind(room);
  };
  add("policy", specgate::policy::bind_policy);
  add("suffix", specgate::suffix::bind_suffix);
  add("drafting", specgate::drafting::bind_drafting);  // uses the classes of the two above
  add("heads", specgate::heads::bind_heads);
  add("kernels", specgate::kernels::bind_kernels);
}
