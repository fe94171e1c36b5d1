#include <CL/cl.h>

#include "device/opencl/program.hpp"

#include "device/opencl/executor.hpp"

namespace gantry::opencl {
namespace {

std::string build_log(const Context& context, cl_program program) {
  std::size_t size = 0;
  const auto get = [&](std::size_t room, void* text, std::size_t* needed) {
    return context.driver.clGetProgramBuildInfo(program, context.device, CL_PROGRAM_BUILD_LOG, room,
                                                text, needed);
  };
  if (get(0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string log(size, '\0');
  if (get(size, log.data(), nullptr) != CL_SUCCESS) return {};
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log;
}

std::string kernel_names(const Context& context, cl_program program) {
  std::size_t size = 0;
  if (context.driver.clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, nullptr, &size) !=
          CL_SUCCESS ||
      size == 0)
    return "not told";
  std::string names(size, '\0');
  context.driver.clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, size, names.data(), nullptr);
  names.resize(size - 1);  // without the final 0
  return names;
}

class BuiltProgram final : public ProgramState {
 public:
  BuiltProgram(std::shared_ptr<const Context> context, std::string name, OwnedProgram program,
               std::string log)
      : context_(std::move(context)),
        name_(std::move(name)),
        program_(std::move(program)),
        log_(std::move(log)) {}

  Result<std::shared_ptr<const KernelState>> find(std::string_view name) const override {
    GANTRY_TRY(context_->core->state());
    const Driver& driver = context_->driver;
    const std::string called(name);
    cl_int status = CL_SUCCESS;
    OwnedKernel kernel(context_, driver.clCreateKernel(program_.get(), called.c_str(), &status));
    if (status == CL_INVALID_KERNEL_NAME)
      return fail(
          Code::not_found,
          fmt::format("{}: program '{}': no kernel '{}'", context_->core->name, name_, name),
          fmt::format("its kernels are {}", kernel_names(*context_, program_.get())));
    if (status != CL_SUCCESS)
      return refused(context_->core->name, fmt::format("kernel '{}'", name), status);
    cl_uint arguments = 0;
    std::size_t group = 1;
    driver.clGetKernelInfo(kernel.get(), CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, nullptr);
    driver.clGetKernelWorkGroupInfo(kernel.get(), context_->device, CL_KERNEL_WORK_GROUP_SIZE,
                                    sizeof group, &group, nullptr);
    return std::make_shared<LaunchedKernel>(context_->core.get(), called, std::move(kernel),
                                            arguments, group);
  }
  std::string_view log() const noexcept override { return log_; }

 private:
  const std::shared_ptr<const Context> context_;
  const std::string name_;
  const OwnedProgram program_;
  const std::string log_;
};

}  // namespace

Result<Program> build(const std::shared_ptr<const Context>& context, const ProgramSource& source) {
  const std::string& device = context->core->name;
  if (source.opencl.source.empty())
    return fail(Code::unsupported,
                fmt::format("{}: program '{}' has no OpenCL C", device, source.name),
                "give it ProgramSource::opencl");
  const Driver& driver = context->driver;
  const char* text = source.opencl.source.data();
  const std::size_t size = source.opencl.source.size();
  cl_int status = CL_SUCCESS;
  OwnedProgram program(
      context, driver.clCreateProgramWithSource(context->context, 1, &text, &size, &status));
  if (status != CL_SUCCESS)
    return refused(device, fmt::format("program '{}'", source.name), status);
  cl_device_id on = context->device;
  status =
      driver.clBuildProgram(program.get(), 1, &on, source.opencl.options.c_str(), nullptr, nullptr);
  std::string log = build_log(*context, program.get());
  if (status == CL_SUCCESS)
    return Program(
        std::make_shared<BuiltProgram>(context, source.name, std::move(program), std::move(log)));
  if (status == CL_DEVICE_NOT_AVAILABLE)
    return refused(device, "compiling", status, Code::device_lost);
  if (log.empty()) log = fmt::format("{} ({})", name_of(status), status);
  return fail(Code::build_failed,
              fmt::format("{}: program '{}' does not compile (options '{}'):\n{}", device,
                          source.name, source.opencl.options, log),
              "the numbers behind the file's name are line and column of the source");
}

}  // namespace gantry::opencl
