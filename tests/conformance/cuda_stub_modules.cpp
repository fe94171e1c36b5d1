// cuda_stub_modules.cpp: modules of the stub: text, in which its kernels are named.

#include <cstdio>
#include <cstring>

#include "cuda_stub.hpp"

using namespace cuda_stub;

struct FunctionObject {
  std::string name;
  const StubKernel* kernel = nullptr;
  const Module* module = nullptr;
  std::size_t most_shared = kSharedBytes;
};

struct ModuleObject {
  Module module;
  std::map<std::string, FunctionObject> functions;
};

std::string Module::define(const std::string& name) const {
  const auto at = text.find("-D" + name + "=");
  if (at == text.npos) return {};
  const auto first = at + name.size() + 3;
  return text.substr(first, text.find('\n', first) - first);
}

namespace {

int refuse_image(int status, const char* why, unsigned count, const int* names, void** values) {
  for (unsigned i = 0; i < count; ++i)
    if (names[i] == 5) std::strcpy(static_cast<char*>(values[i]), why);
  return status;
}

// As a driver sees it: code for one device, or text that it compiles itself.
int judge(const std::string& image, const char*& why) {
  why = "neither a cubin nor PTX";
  int capability = 0;
  if (std::sscanf(image.c_str(), "stub cubin for sm_%d", &capability) == 1) {
    why = "a cubin for another device";
    return capability == stub().capability ? kSuccess : kNoBinary;
  }
  return image.starts_with(".version") || image.starts_with("stub ptx") ? kSuccess : kInvalidImage;
}

void run_kernel(const StubKernel& kernel, const Launch& launch) {
  {
    const std::lock_guard lock(stub().mutex);
    ++stub().running_kernels;
  }
  kernel.run(launch);
  const std::lock_guard lock(stub().mutex);
  --stub().running_kernels;
  stub().changed.notify_all();
}

bool has_its_memory(const StubKernel& kernel, const Launch& launch) {
  const std::lock_guard lock(stub().mutex);
  for (const std::size_t index : kernel.pointers)
    if (!is_memory(launch.value<std::uint64_t>(index), 1)) return false;
  return true;
}

}  // namespace

extern "C" {

int cuModuleLoadDataEx(ModuleObject** module, const void* image, unsigned count, const int* names,
                       void** values) {
  if (const int status = enter("cuModuleLoadDataEx")) return status;
  const std::string text = static_cast<const char*>(image);
  const char* why = nullptr;
  if (const int status = judge(text, why)) return refuse_image(status, why, count, names, values);
  auto* made = new ModuleObject{{text}, {}};
  for (const auto& [name, kernel] : kernels())
    if (text.find("void " + name + "(") != text.npos ||
        text.find(".entry " + name + "(") != text.npos)
      made->functions[name] = {name, &kernel, &made->module};
  *module = made;
  const std::lock_guard lock(stub().mutex);
  ++stub().modules;
  return kSuccess;
}
int cuModuleUnload(ModuleObject* module) {
  const std::lock_guard lock(stub().mutex);
  --stub().modules;
  delete module;
  return kSuccess;
}
int cuModuleGetFunction(FunctionObject** function, ModuleObject* module, const char* name) {
  if (const int status = enter("cuModuleGetFunction")) return status;
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return kNotFound;
  *function = &found->second;
  return kSuccess;
}
int cuModuleGetFunctionCount(unsigned* count, ModuleObject* module) {
  *count = static_cast<unsigned>(module->functions.size());
  return kSuccess;
}
int cuModuleEnumerateFunctions(FunctionObject** functions, unsigned room, ModuleObject* module) {
  for (auto& [name, function] : module->functions) {
    if (room-- == 0) break;
    *functions++ = &function;
  }
  return kSuccess;
}
int cuFuncGetName(const char** name, FunctionObject* function) {
  *name = function->name.c_str();
  return kSuccess;
}
int cuFuncGetParamInfo(FunctionObject* function, std::size_t index, std::size_t* offset,
                       std::size_t* bytes) {
  if (index >= function->kernel->parameter_bytes.size()) return kInvalidValue;
  *offset = 0;
  *bytes = function->kernel->parameter_bytes[index];
  return kSuccess;
}
int cuFuncGetAttribute(int* value, int which, FunctionObject*) {
  *value = which == 0 ? kMostThreads : 0;
  return kSuccess;
}
int cuFuncSetAttribute(FunctionObject* function, int which, int value) {
  if (which != 8 || value < 0 || value > kSharedOptInBytes) return kInvalidValue;
  function->most_shared = static_cast<std::size_t>(value);
  return kSuccess;
}
int cuLaunchKernel(FunctionObject* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   StreamObject* stream, void** parameters, void** extra) {
  if (const int status = enter("cuLaunchKernel")) return status;
  const std::size_t threads = std::size_t{block_x} * block_y * block_z;
  const bool is_shape = grid_x != 0 && grid_y != 0 && grid_y <= 65535 && grid_z != 0 &&
                        grid_z <= 65535 && threads != 0 && threads <= kMostThreads;
  if (!is_shape || extra != nullptr || shared_bytes > function->most_shared) return kInvalidValue;
  Launch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, {}, nullptr};
  launch.module = function->module;
  for (std::size_t i = 0; i < function->kernel->parameter_bytes.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(parameters[i]);
    launch.parameters.emplace_back(bytes, bytes + function->kernel->parameter_bytes[i]);
  }
  const int fault = scripted_fault("cuLaunchKernel");
  give(stream, [kernel = function->kernel, launch = std::move(launch), fault] {
    if (fault != kSuccess) return fault;
    if (!has_its_memory(*kernel, launch)) return kIllegalAddress;
    run_kernel(*kernel, launch);
    return kSuccess;
  });
  return kSuccess;
}

}  // extern "C"
