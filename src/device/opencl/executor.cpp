#include <CL/cl.h>

#include "device/opencl/executor.hpp"

#include <algorithm>

namespace gantry::opencl {
namespace {

cl_mem object_of(const std::shared_ptr<BufferState>& buffer) {
  return static_cast<const Buffer&>(*buffer).object.get();
}

const LaunchedKernel& kernel_of(const Operation& operation) {
  return static_cast<const LaunchedKernel&>(*operation.kernel);
}

// Sets all of them; the kernel's lock must be held. `index`: the argument that was refused.
cl_int set_arguments(const Driver& driver, const Operation& operation, cl_uint& index) {
  index = 0;
  cl_kernel kernel = kernel_of(operation).object.get();
  for (const KernelArgument& argument : operation.arguments) {
    cl_int status = CL_SUCCESS;
    if (argument.is_buffer()) {
      cl_mem memory = object_of(argument.buffer());
      status =
          driver.clSetKernelArg(kernel, index, sizeof(cl_mem), static_cast<const void*>(&memory));
    } else if (argument.local_bytes() != 0) {
      status = driver.clSetKernelArg(kernel, index, argument.local_bytes(), nullptr);
    } else {
      status =
          driver.clSetKernelArg(kernel, index, argument.value().size(), argument.value().data());
    }
    if (status != CL_SUCCESS) return status;
    ++index;
  }
  return CL_SUCCESS;
}

/// True if that place of a buffer is the host's memory at `host`.
bool is_there(const BufferState& buffer, Bytes offset, const std::byte* host) {
  const auto* const view = dynamic_cast<const ViewBuffer*>(&buffer);
  return view != nullptr && view->begin + offset == host;
}

// Of rows whose stride is the same on both sides.
Bytes extent_of(const Operation& operation) noexcept {
  return (operation.rows - 1) * operation.to_stride + operation.size;
}

// OpenCL counts where a rectangle begins in rows and bytes.
std::array<std::size_t, 3> origin_of(Bytes offset, Bytes stride) noexcept {
  return {offset % stride, offset / stride, 0};
}

/// Passes what the device's answer needs to the thread on which the driver calls us.
struct Answer {
  std::shared_ptr<const Context> context;
  std::shared_ptr<Operation> operation;
  std::shared_ptr<QueueCore> queue;
};

DeviceTiming::Time host_time(const Context& context, cl_ulong device_ns) {
  return DeviceTiming::Time(
      std::chrono::nanoseconds(static_cast<std::int64_t>(device_ns) + context.clock_offset_ns));
}

// Drifting clocks must not make an operation begin before it was asked for.
void take_times(const Context& context, cl_event event, DeviceTiming& timing) {
  const auto now = Deadline::Clock::now();
  cl_ulong began = 0;
  cl_ulong ended = 0;
  const auto get = [&](cl_profiling_info what, cl_ulong& at) {
    return context.driver.clGetEventProfilingInfo(event, what, sizeof at, &at, nullptr) ==
           CL_SUCCESS;
  };
  const bool has_times =
      get(CL_PROFILING_COMMAND_START, began) && get(CL_PROFILING_COMMAND_END, ended);
  timing.ended = has_times ? std::clamp(host_time(context, ended), timing.submitted, now) : now;
  timing.began =
      has_times ? std::clamp(host_time(context, began), timing.submitted, timing.ended) : now;
}

void answer(Answer& to, cl_event event, cl_int status) noexcept {
  take_times(*to.context, event, to.operation->timing);
  std::optional<Error> error;
  if (status < 0) {
    auto described =
        guarded([&]() -> Result<Error> { return error_of(status, to.operation->kind); });
    error = described ? std::move(*described) : std::move(described).error();
  }
  to.queue->done(to.operation, std::move(error));
}

void CL_CALLBACK ended(cl_event event, cl_int status, void* data) {
  const std::unique_ptr<Answer> to(static_cast<Answer*>(data));
  answer(*to, event, status);
}

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

class CommandExecutor final : public Executor {
 public:
  CommandExecutor(std::shared_ptr<const Context> context, OwnedQueue queue) noexcept
      : context_(std::move(context)), queue_(std::move(queue)) {}
  ~CommandExecutor() override {
    if (context_->core->is_here()) context_->driver.clFinish(queue_.get());
  }

  // Enough that the device never waits for the host between two; few, since an operation that it
  // was given cannot be cancelled.
  [[nodiscard]] std::size_t depth() const noexcept override { return 4; }
  [[nodiscard]] Result<void> check(const Operation& operation) override {
    if (operation.kind != Operation::Kind::launch) return {};
    const LaunchedKernel& kernel = kernel_of(operation);
    const auto invalid = [&](const std::string& why) {
      return fail(Code::invalid_argument,
                  fmt::format("{}: launch of '{}': {}", context_->core->name, kernel.name, why));
    };
    if (operation.arguments.size() != kernel.argument_count)
      return invalid(fmt::format("it takes {} arguments, {} were given", kernel.argument_count,
                                 operation.arguments.size()));
    const std::size_t group = operation.range.group_count();
    if (group > kernel.max_group)
      return invalid(fmt::format("a group of {} items; at most {}", group, kernel.max_group));
    cl_uint index = 0;
    const std::lock_guard lock(kernel.arguments);
    const cl_int status = set_arguments(context_->driver, operation, index);
    if (status == CL_SUCCESS) return {};
    return invalid(fmt::format("argument {}: {} ({})", index, name_of(status), status));
  }

  void begin(const std::shared_ptr<Operation>& operation, const std::shared_ptr<QueueCore>& queue,
             bool follows) noexcept override {
    const Driver& driver = context_->driver;
    // The driver goes on behind a call that it refused; operations that follow it here must not.
    if (follows && was_refused_) {
      operation->timing.began = operation->timing.ended = Deadline::Clock::now();
      return queue->done(operation, Error{Code::aborted, {}, {}});
    }
    was_refused_ = false;
    // By the standard an operation that waits for a failed event does not begin; order alone does
    // not promise that.
    cl_event before = last_.get();
    const Waits waits = follows && before != nullptr ? Waits{1, &before} : Waits{};
    cl_event event = nullptr;
    auto to = guarded([&]() -> Result<std::unique_ptr<Answer>> {
      return std::make_unique<Answer>(Answer{context_, operation, queue});
    });
    operation->timing.began = operation->timing.ended = Deadline::Clock::now();
    was_refused_ = !to;
    if (!to) return queue->done(operation, std::move(to).error());
    const cl_int status = enqueue(*operation, waits, &event);
    if (status != CL_SUCCESS) {
      was_refused_ = true;
      auto error = guarded([&]() -> Result<Error> { return error_of(status, operation->kind); });
      return queue->done(operation, error ? std::move(*error) : std::move(error).error());
    }
    driver.clRetainEvent(event);
    last_ = OwnedEvent(context_, event);
    const OwnedEvent held(context_, event);
    if (driver.clSetEventCallback(event, CL_COMPLETE, &ended, to->get()) == CL_SUCCESS) {
      [[maybe_unused]] const Answer* const handed_over = to->release();  // to ended()
      driver.clFlush(queue_.get());
      return;
    }
    const cl_int waited = driver.clWaitForEvents(1, &event);  // a driver that tells nobody
    answer(**to, event, waited);
  }

 private:
  struct Waits {
    cl_uint count = 0;
    const cl_event* events = nullptr;
  };
  [[nodiscard]] cl_int enqueue(const Operation& operation, Waits waits, cl_event* event) const {
    const Driver& driver = context_->driver;
    cl_command_queue queue = queue_.get();
    if (operation.rows != 1) return enqueue_rows(operation, waits, event);
    switch (operation.kind) {
      case Operation::Kind::copy_in:
        if (is_there(*operation.to, operation.to_offset, operation.host_from))
          return share(*operation.to, operation.to_offset, operation.size, waits, event);
        return driver.clEnqueueWriteBuffer(queue, object_of(operation.to), CL_FALSE,
                                           operation.to_offset, operation.size, operation.host_from,
                                           waits.count, waits.events, event);
      case Operation::Kind::copy_out:
        if (is_there(*operation.from, operation.from_offset, operation.host_to))
          return share(*operation.from, operation.from_offset, operation.size, waits, event);
        return driver.clEnqueueReadBuffer(queue, object_of(operation.from), CL_FALSE,
                                          operation.from_offset, operation.size, operation.host_to,
                                          waits.count, waits.events, event);
      case Operation::Kind::copy:
        return driver.clEnqueueCopyBuffer(queue, object_of(operation.from), object_of(operation.to),
                                          operation.from_offset, operation.to_offset,
                                          operation.size, waits.count, waits.events, event);
      case Operation::Kind::fill:
        return driver.clEnqueueFillBuffer(queue, object_of(operation.to), &operation.value, 1,
                                          operation.to_offset, operation.size, waits.count,
                                          waits.events, event);
      case Operation::Kind::launch:
        return launch(operation, waits, event);
      case Operation::Kind::record:
        break;
    }
    return CL_INVALID_OPERATION;
  }

  [[nodiscard]] cl_int enqueue_rows(const Operation& operation, Waits waits,
                                    cl_event* event) const {
    const Driver& driver = context_->driver;
    cl_command_queue queue = queue_.get();
    const std::array<std::size_t, 3> region{operation.size, operation.rows, 1};
    const std::array<std::size_t, 3> none{};
    const Bytes to_stride = operation.to_stride;
    const Bytes from_stride = operation.from_stride;
    const auto to = origin_of(operation.to_offset, to_stride);
    const auto from = origin_of(operation.from_offset, from_stride);
    switch (operation.kind) {
      case Operation::Kind::copy_in:
        if (to_stride == from_stride &&
            is_there(*operation.to, operation.to_offset, operation.host_from))
          return share(*operation.to, operation.to_offset, extent_of(operation), waits, event);
        return driver.clEnqueueWriteBufferRect(
            queue, object_of(operation.to), CL_FALSE, to.data(), none.data(), region.data(),
            to_stride, 0, from_stride, 0, operation.host_from, waits.count, waits.events, event);
      case Operation::Kind::copy_out:
        if (to_stride == from_stride &&
            is_there(*operation.from, operation.from_offset, operation.host_to))
          return share(*operation.from, operation.from_offset, extent_of(operation), waits, event);
        return driver.clEnqueueReadBufferRect(
            queue, object_of(operation.from), CL_FALSE, from.data(), none.data(), region.data(),
            from_stride, 0, to_stride, 0, operation.host_to, waits.count, waits.events, event);
      case Operation::Kind::copy:
        return driver.clEnqueueCopyBufferRect(
            queue, object_of(operation.from), object_of(operation.to), from.data(), to.data(),
            region.data(), from_stride, 0, to_stride, 0, waits.count, waits.events, event);
      default:
        return CL_INVALID_OPERATION;
    }
  }

  [[nodiscard]] cl_int launch(const Operation& operation, Waits waits, cl_event* event) const {
    const LaunchedKernel& kernel = kernel_of(operation);
    const LaunchRange& range = operation.range;
    std::array<std::size_t, 3> items = range.items;
    std::array<std::size_t, 3> group{1, 1, 1};
    const bool has_group = range.group_count() != 0;
    for (std::size_t i = 0; has_group && i < items.size(); ++i) {
      group[i] = std::max(range.group[i], std::size_t{1});
      items[i] = (items[i] + group[i] - 1) / group[i] * group[i];
    }
    const std::lock_guard lock(kernel.arguments);
    cl_uint index = 0;
    if (const cl_int status = set_arguments(context_->driver, operation, index);
        status != CL_SUCCESS)
      return status;
    return context_->driver.clEnqueueNDRangeKernel(queue_.get(), kernel.object.get(), 3, nullptr,
                                                   items.data(), has_group ? group.data() : nullptr,
                                                   waits.count, waits.events, event);
  }

  /// Makes what the host wrote in the caller's memory visible to the device, or the reverse.
  [[nodiscard]] cl_int share(const BufferState& view, Bytes offset, Bytes size, Waits waits,
                             cl_event* event) const {
    const Driver& driver = context_->driver;
    cl_mem object = static_cast<const Buffer&>(view).object.get();
    cl_int status = CL_SUCCESS;
    void* const mapped =
        driver.clEnqueueMapBuffer(queue_.get(), object, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE,
                                  offset, size, waits.count, waits.events, nullptr, &status);
    if (status != CL_SUCCESS) return status;
    return driver.clEnqueueUnmapMemObject(queue_.get(), object, mapped, 0, nullptr, event);
  }

  const std::shared_ptr<const Context> context_;
  const OwnedQueue queue_;
  OwnedEvent last_;  // of the operation that was begun last
  bool was_refused_ = false;
};

}  // namespace

Result<std::unique_ptr<Executor>> open_executor(const std::shared_ptr<const Context>& context) {
  GANTRY_ASSIGN(OwnedQueue queue, open_queue(context));
  return std::make_unique<CommandExecutor>(context, std::move(queue));
}

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
