#include "device/opencl/opencl_device.hpp"

#include <CL/cl.h>

#include <algorithm>
#include <bit>

#include "core/base/os/block_signals.hpp"
#include "device/device_base.hpp"
#include "device/opencl/driver.hpp"
#include "device/opencl/executor.hpp"

namespace gantry {
namespace opencl {
namespace {

template <class Value>
Value fact(const Context& context, cl_device_info what, Value otherwise) {
  Value value{};
  const bool is_told = context.driver.clGetDeviceInfo(context.device, what, sizeof value, &value,
                                                      nullptr) == CL_SUCCESS;
  return is_told ? value : otherwise;
}

DeviceFacts facts_of(const Context& context, const std::string& about, Bytes memory_bytes) {
  DeviceFacts facts;
  facts.name = context.core->name;
  facts.about = about;
  facts.kind = DeviceKind::opencl;
  const auto all = fact<cl_ulong>(context, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
  facts.memory_bytes = memory_bytes != 0 ? std::min<Bytes>(memory_bytes, all) : all;
  facts.max_buffer_bytes = std::min<Bytes>(
      facts.memory_bytes, fact<cl_ulong>(context, CL_DEVICE_MAX_MEM_ALLOC_SIZE, all));
  facts.alignment =
      std::max<Bytes>(fact<cl_uint>(context, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 8) / 8, 1);
  facts.max_group = fact<std::size_t>(context, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1);
  facts.local_bytes = fact<cl_ulong>(context, CL_DEVICE_LOCAL_MEM_SIZE, 0);
  facts.compute_units = fact<cl_uint>(context, CL_DEVICE_MAX_COMPUTE_UNITS, 1);
  facts.unified_memory = fact<cl_bool>(context, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE) == CL_TRUE;
  // Other kinds may compute on the host's memory too, or copy it without saying so; only of CPUs
  // one knows.
  const auto type = fact<cl_device_type>(context, CL_DEVICE_TYPE, 0);
  if (facts.unified_memory && (type & CL_DEVICE_TYPE_CPU) != 0)
    facts.in_place_alignment = std::bit_ceil(facts.alignment);
  facts.copies_overlap = true;  // no driver says so; different queues may
  return facts;
}

class OpenclDevice final : public DeviceBase {
 public:
  OpenclDevice(std::shared_ptr<const Context> context, OwnedQueue service, DeviceFacts facts,
               std::chrono::nanoseconds patience)
      : DeviceBase(std::move(facts), context->core),
        context_(std::move(context)),
        service_(std::move(service)),
        patience_(patience),
        kept_(std::make_shared<Kept>(bytes_to_keep(this->facts().memory_bytes))) {}

 private:
  Result<DeviceBuffer> make_buffer(Bytes size, MemoryBudget::Share share) override {
    const Bytes room = std::min(Kept::room_for(size), facts().max_buffer_bytes);
    OwnedMemory memory;
    cl_int status = CL_SUCCESS;
    if (auto kept = kept_->take(room)) {
      memory = *std::move(kept);
    } else if (status = make(room, memory); status != CL_SUCCESS) {
      kept_->clear();
      status = make(room, memory);
    }
    GANTRY_TRY(context_->core->state());  // while it was waited for
    if (status == CL_SUCCESS)
      return DeviceBuffer(std::make_shared<TakenBuffer>(
          context_->core.get(), size, std::move(memory), std::move(share), kept_, room));
    if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
        status == CL_OUT_OF_HOST_MEMORY)
      return full(size);
    return refused(facts().name, fmt::format("a buffer of {} bytes", size), status);
  }

  Result<DeviceBuffer> make_view(ByteSpan memory, KeepAlive keep) override {
    cl_int status = CL_SUCCESS;
    OwnedMemory object(context_, context_->driver.clCreateBuffer(
                                     context_->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                     memory.size(), memory.data(), &status));
    if (status == CL_SUCCESS)
      return DeviceBuffer(std::make_shared<ViewBuffer>(context_->core.get(), memory,
                                                       std::move(object), std::move(keep)));
    return refused(facts().name, fmt::format("a buffer over {} bytes", memory.size()), status);
  }

  Result<std::unique_ptr<Executor>> make_executor() override { return open_executor(context_); }
  Result<Program> make_program(const ProgramSource& source) override {
    return opencl::build(context_, source);
  }
  [[nodiscard]] cl_int make(Bytes size, OwnedMemory& memory) const {
    cl_int status = CL_SUCCESS;
    memory =
        OwnedMemory(context_, context_->driver.clCreateBuffer(context_->context, CL_MEM_READ_WRITE,
                                                              size, nullptr, &status));
    return status != CL_SUCCESS ? status : make_present(memory.get());
  }

  // Many drivers take no memory before it is used; asked to put it on the device, they do. If the
  // device has no time for that, it is unknown.
  [[nodiscard]] cl_int make_present(cl_mem memory) const {
    const Driver& driver = context_->driver;
    cl_event event = nullptr;
    const cl_int status = driver.clEnqueueMigrateMemObjects(
        service_.get(), 1, &memory, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, nullptr, &event);
    if (status != CL_SUCCESS) return status;
    const OwnedEvent held(context_, event);
    driver.clFlush(service_.get());
    const cl_int answer =
        wait_until(*context_, event, Deadline::after(patience_)).value_or(CL_COMPLETE);
    return std::min(answer, CL_SUCCESS);
  }

  const std::shared_ptr<const Context> context_;
  const OwnedQueue service_;
  const std::chrono::nanoseconds patience_;
  const std::shared_ptr<Kept> kept_;
};

tl::unexpected<Error> no_answer(const Context& context) {
  return fail(Code::timed_out, fmt::format("{}: it does not answer", context.core->name),
              "a kernel that never ends may hold it up: end the process that runs it");
}

// Compares the device's time of the end of an operation with ours when we learn of it. The least
// difference of several is nearest to the truth.
Result<std::int64_t> measure_clock(const std::shared_ptr<const Context>& context,
                                   cl_command_queue queue, Deadline limit) {
  constexpr int kTries = 8;
  const Driver& driver = context->driver;
  cl_int status = CL_SUCCESS;
  const OwnedMemory memory(
      context, driver.clCreateBuffer(context->context, CL_MEM_READ_WRITE, 64, nullptr, &status));
  if (status != CL_SUCCESS) return refused(context->core->name, "its clock", status);
  std::optional<std::int64_t> least;
  for (int i = 0; i < kTries; ++i) {
    cl_event event = nullptr;
    const cl_uint zero = 0;
    status = driver.clEnqueueFillBuffer(queue, memory.get(), &zero, sizeof zero, 0, 64, 0, nullptr,
                                        &event);
    if (status != CL_SUCCESS) return refused(context->core->name, "a first operation", status);
    const OwnedEvent held(context, event);
    driver.clFlush(queue);
    const auto answer = wait_until(*context, event, limit);
    const auto now = Deadline::Clock::now().time_since_epoch();
    if (!answer) return no_answer(*context);
    cl_ulong ended = 0;
    status = std::min(*answer, CL_SUCCESS);
    if (status == CL_SUCCESS)
      status = driver.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof ended, &ended,
                                              nullptr);
    if (status != CL_SUCCESS) return refused(context->core->name, "a first operation", status);
    const std::int64_t apart =
        std::chrono::nanoseconds(now).count() - static_cast<std::int64_t>(ended);
    least = std::min(least.value_or(apart), apart);
  }
  return least.value_or(0);
}

Result<std::shared_ptr<Device>> open(const OpenclDeviceOptions& options) {
  const BlockSignals blocked;  // of the threads that its driver starts
  GANTRY_ASSIGN(const Driver driver, load(options.library));
  GANTRY_ASSIGN(const std::vector<Found> found, find_devices(driver));
  if (options.index >= found.size())
    return fail(Code::not_found, fmt::format("opencl:{}: there is no such device", options.index),
                fmt::format("there are {}: opencl:0 to opencl:{}", found.size(), found.size() - 1));
  const Found& chosen = found[options.index];
  auto context = std::make_shared<Context>(driver, fmt::format("opencl:{}", options.index));
  const cl_context_properties properties[] = {
      CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(chosen.platform), 0};
  cl_int status = CL_SUCCESS;
  context->device = chosen.device;
  context->context =
      driver.clCreateContext(properties, 1, &chosen.device, nullptr, nullptr, &status);
  if (status != CL_SUCCESS) return refused(context->core->name, "its context", status);
  GANTRY_ASSIGN(OwnedQueue service, open_queue(context));
  GANTRY_ASSIGN(context->clock_offset_ns,
                measure_clock(context, service.get(), Deadline::after(options.patience)));
  DeviceFacts facts = facts_of(*context, chosen.about, options.memory_bytes);
  return std::make_shared<OpenclDevice>(std::move(context), std::move(service), std::move(facts),
                                        options.patience);
}

}  // namespace
}  // namespace opencl

Result<std::vector<std::string>> opencl_devices(const OpenclDeviceOptions& options) {
  return guarded([&]() -> Result<std::vector<std::string>> {
    const BlockSignals blocked;  // of the threads that its driver starts
    GANTRY_ASSIGN(const opencl::Driver driver, opencl::load(options.library));
    GANTRY_ASSIGN(const std::vector<opencl::Found> found, opencl::find_devices(driver));
    std::vector<std::string> names;
    for (const opencl::Found& one : found) names.push_back(one.about);
    return names;
  });
}

Result<std::shared_ptr<Device>> make_opencl_device(const OpenclDeviceOptions& options) {
  return guarded([&] { return opencl::open(options); });
}

}  // namespace gantry
