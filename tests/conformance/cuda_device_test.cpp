#include <dlfcn.h>
#include <gmock/gmock.h>

#include "device/cuda/program.hpp"
#include "device_suite.hpp"

// CUDA devices against a driver that fails as told (cuda_stub.hpp), and without one.
namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kOutOfMemory = 2, kDeviceUnavailable = 46, kInvalidImage = 200, kOutOfResources = 701,
              kIllegalAddress = 700, kNotPermitted = 800;

class CudaStubDevice : public testing::Test {
 protected:
  void SetUp() override {
    await_end();  // of others' kernels
    call<void>("cuda_stub_revive");
    open({});
  }
  // Whatever happened, everything was given back.
  void TearDown() override {
    call<void>("cuda_stub_open_gate");
    close();
    await_end();
    EXPECT_EQ(call<int>("cuda_stub_objects"), 0);
    call<void>("cuda_stub_revive");
  }

  template <class Answer, class... Arguments>
  Answer call(const char* name, Arguments... arguments) const {
    return reinterpret_cast<Answer (*)(Arguments...)>(::dlsym(library_, name))(arguments...);
  }
  void fail_next(const char* what, int status) const {
    call<void, const char*, int>("cuda_stub_fail", what, status);
  }
  void fault_next(const char* what, int status) const {
    call<void, const char*, int>("cuda_stub_fault", what, status);
  }

  /// Until nobody has a context: then alone it may be revived.
  void await_end() const {
    while (call<int>("cuda_stub_contexts") != 0) std::this_thread::yield();
  }
  void open(Bytes memory_bytes) {
    device_ = *make_cuda_device(cuda_stub_options(memory_bytes));
    in_ = *device_->open_queue(QueueRole::copy_in);
    compute_ = *device_->open_queue(QueueRole::compute);
    there_ = *device_->allocate(1000);
  }
  void close() {
    there_ = {};
    in_.reset();
    compute_.reset();
    device_.reset();
  }
  [[nodiscard]] Kernel kernel(const char* name) const {
    const std::string text = fmt::format("extern \"C\" __global__ void {}(...)", name);
    return *device_->build({.name = "one", .cuda = {text, {}}})->kernel(name);
  }
  [[nodiscard]] Result<DeviceEvent> add() const {
    return compute_->launch(kernel("add"), {there_, 10u, 1u}, LaunchRange::linear(10));
  }
  static Error error_of(const auto& result) {
    EXPECT_FALSE(result);
    return result ? Error{} : result.error();
  }

  void* const library_ = ::dlopen(GANTRY_CUDA_STUB, RTLD_NOW | RTLD_LOCAL);
  std::shared_ptr<Device> device_;
  std::unique_ptr<DeviceQueue> in_, compute_;
  DeviceBuffer there_;
  std::array<std::byte, 1000> bytes_{};
};

// ---- what there is -------------------------------------------------------------------------

TEST_F(CudaStubDevice, SaysWhatItIs) {
  const DeviceFacts& facts = device_->facts();
  EXPECT_EQ(facts.name, "cuda:0");
  EXPECT_EQ(
      facts.about,
      "simulated: stub of a device, compute capability 9.0, driver for CUDA 12.8, NVRTC 12.8");
  EXPECT_EQ(facts.kind, DeviceKind::cuda);
  EXPECT_EQ(facts.max_group, 1024u);
  EXPECT_EQ(facts.local_bytes, Bytes{96} << 10);
  EXPECT_TRUE(facts.registering_pays);
  EXPECT_EQ(cuda_devices(cuda_stub_options(0)), std::vector<std::string>{facts.about});
}

TEST_F(CudaStubDevice, NoDriverNoDeviceOrNoCompilerSaysHowToMend) {
  const Error none = error_of(make_cuda_device({.library = "libno-such-driver.so.1"}));
  EXPECT_EQ(none.code, Code::unsupported);
  EXPECT_EQ(none.message, "cuda: libno-such-driver.so.1 cannot be opened");
  EXPECT_THAT(none.hint, HasSubstr("install the NVIDIA driver"));
  EXPECT_EQ(error_of(make_cuda_device({.library = "libc.so.6"})).message,
            "cuda: the driver has no cuInit");
  const Error other = error_of(make_cuda_device({.index = 1, .library = GANTRY_CUDA_STUB}));
  EXPECT_EQ(other.code, Code::not_found);
  EXPECT_THAT(other.hint, HasSubstr("there are 1"));
  auto options = cuda_stub_options(0);
  options.compiler = "libno-such-compiler.so.12";
  const auto mute = *make_cuda_device(options);
  EXPECT_THAT(mute->facts().about, HasSubstr("no NVRTC: kernels as modules only"));
  const Error mutes = error_of(mute->build({.name = "p", .cuda = {"void k()", {}}}));
  EXPECT_EQ(mutes.code, Code::unsupported);
  EXPECT_THAT(mutes.hint, AllOf(HasSubstr("NVRTC"), HasSubstr("cuda_image")));
}

TEST_F(CudaStubDevice, LeavesTheCallersContextCurrent) {
  int theirs = 0;
  call<void, void*>("cuda_stub_set_current", &theirs);
  EXPECT_TRUE(device_->memory());
  EXPECT_TRUE(add()->wait());
  there_ = *device_->allocate(8);
  EXPECT_EQ(call<void*>("cuda_stub_current"), &theirs);
  call<void, void*>("cuda_stub_set_current", nullptr);
}

// ---- programs ------------------------------------------------------------------------------

TEST_F(CudaStubDevice, ModulesNeedNoCompilerAndGoBeforeSource) {
  const std::string_view text = ".version 8.0\n.visible .entry add(\n";
  const auto bytes = std::as_bytes(std::span(text));
  ProgramSource source{.name = "module", .cuda = {"// stub: error", {}}};
  source.cuda_image.assign(bytes.begin(), bytes.end());
  const auto program = device_->build(source);
  ASSERT_TRUE(program) << to_string(program.error());
  EXPECT_TRUE(compute_->launch(*program->kernel("add"), {there_, 10u, 1u}, {})->wait());
  source.cuda_image.assign(3, std::byte{'x'});
  const Error error = error_of(device_->build(source));
  EXPECT_EQ(error.code, Code::build_failed);
  EXPECT_THAT(error.message, AllOf(HasSubstr("'module'"), HasSubstr("neither a cubin nor PTX")));
}

TEST_F(CudaStubDevice, WarningsAreToldAndAnUnknownDeviceGetsPtx) {
  call<void, int>("cuda_stub_capability", 103);  // newer than the compiler: cubins do not fit
  const ProgramSource source{.name = "new",
                             .cuda = {"void add(  // stub: warning it is old\n", {}}};
  const auto program = device_->build(source);
  ASSERT_TRUE(program) << to_string(program.error());
  EXPECT_EQ(program->log(), "new(1): warning: it is old");
  EXPECT_TRUE(compute_->launch(*program->kernel("add"), {there_, 10u, 1u}, {})->wait());
}

// NVRTC itself, where it is installed; it needs no device.
TEST(CudaCompiler, ARealOneCompilesTheSuiteAndComplainsWithLines) {
  const auto version = cuda::compiler_version(nullptr);
  if (!version) GTEST_SKIP() << "no NVRTC is installed";
  for (const int capability : {90, 999}) {
    const auto made = cuda::compile(nullptr, "cuda:0",
                                    {.name = "suite", .cuda = {kSuiteCudaText, {}}}, capability);
    ASSERT_TRUE(made) << *version << ": " << to_string(made.error());
    EXPECT_FALSE(made->image.empty());
  }
  const auto broken =
      cuda::compile(nullptr, "cuda:0", {.name = "broken", .cuda = {"\n\n int x = y;", {}}}, 90);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::build_failed);
  EXPECT_THAT(broken.error().message, HasSubstr("broken(3): error"));
}

// ---- launches ------------------------------------------------------------------------------

TEST_F(CudaStubDevice, WhatNoLaunchCanBeIsRefusedWithTheNumbers) {
  const Kernel add = kernel("add");
  const auto why = [&](std::initializer_list<KernelArgument> arguments, const LaunchRange& range) {
    const Error error = error_of(compute_->launch(add, arguments, range));
    EXPECT_EQ(error.code, Code::invalid_argument);
    return error.message;
  };
  EXPECT_THAT(why({there_, 1u}, {}), HasSubstr("takes 3 arguments, 2 were given"));
  EXPECT_THAT(why({there_, 1.0, 1u}, {}), HasSubstr("argument 1 has 8 bytes, the kernel takes 4"));
  EXPECT_THAT(why({there_, 1u, 1u}, {{1, 1, 65}, {1, 1, 65}}),
              HasSubstr("65 items in dimension 2"));
  EXPECT_THAT(why({there_, 1u, 1u}, {{1, 65'536, 1}, {1, 1, 1}}),
              HasSubstr("65536 groups in dimension 1; at most 65535"));
  const auto local = KernelArgument::local;
  EXPECT_THAT(why({there_, local(Bytes{97} << 10), 1u, 1u}, {}), HasSubstr("at most 98304"));
  EXPECT_THAT(why({there_, local(~Bytes{0}), local(2), 1u, 1u}, {}), HasSubstr("at most 98304"));
  // More than every kernel may have: it is asked for.
  EXPECT_TRUE(compute_->launch(add, {there_, local(Bytes{96} << 10), 1u, 1u}, {})->wait());
}

TEST_F(CudaStubDevice, WhatFollowsARefusedCallDoesNotBegin) {
  const Kernel gate = kernel("gate"), add = kernel("add");
  for (int round = 0; round < 20; ++round) {
    call<void>("cuda_stub_revive");
    const auto before = *compute_->launch(gate, {}, {});
    while (call<int>("cuda_stub_gate_entered") == 0) std::this_thread::yield();
    fail_next("cuLaunchKernel", kOutOfResources);
    const auto refused = *compute_->launch(add, {there_, 10u, 1u}, {});
    while (call<int>("cuda_stub_scripted") != 0) std::this_thread::yield();
    const auto behind = *compute_->fill(there_, 0, 1000, std::byte{9});
    std::this_thread::yield();  // so that it would begin, if it did
    call<void>("cuda_stub_open_gate");
    EXPECT_TRUE(before.wait());
    EXPECT_EQ(error_of(refused.wait()).code, Code::invalid_argument);
    EXPECT_EQ(error_of(behind.wait()).code, Code::invalid_argument);
    EXPECT_THAT(error_of(behind.wait()).message, HasSubstr("not begun"));
    EXPECT_FALSE(compute_->drain());
    ASSERT_TRUE(in_->copy_out(there_, 0, bytes_)->wait());
    EXPECT_NE(bytes_[0], std::byte{9});
  }
  EXPECT_TRUE(compute_->launch(add, {there_, 10u, 1u}, {})->wait());
}

// ---- failures ------------------------------------------------------------------------------

TEST_F(CudaStubDevice, NoMemoryIsDeviceFullAndTheDeviceGoesOn) {
  fail_next("cuMemAlloc_v2", kOutOfMemory);
  const Error error = error_of(device_->allocate(4096));
  EXPECT_EQ(error.code, Code::device_full);
  EXPECT_THAT(error.message, HasSubstr("a buffer of 4096 bytes"));
  EXPECT_TRUE(device_->allocate(4096));
  fail_next("cuMemcpyHtoDAsync_v2", kOutOfMemory);
  EXPECT_EQ(error_of(in_->copy_in(there_, 0, bytes_)->wait()).code, Code::device_full);
  EXPECT_FALSE(in_->drain());
  EXPECT_TRUE(in_->copy_in(there_, 0, bytes_)->wait());
}

TEST_F(CudaStubDevice, AKernelsFaultIsItsOwnAndLosesTheDevice) {
  const Kernel add = kernel("add");
  fault_next("cuLaunchKernel", kIllegalAddress);
  const auto bad = *compute_->launch(add, {there_, 10u, 1u}, {});
  const Error error = error_of(bad.wait());
  EXPECT_EQ(error.code, Code::kernel_fault);
  EXPECT_THAT(error.message, AllOf(HasSubstr("cuda:0: launch of 'add'"),
                                   HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"), HasSubstr("(700)")));
  EXPECT_THAT(error.hint, HasSubstr("new process"));
  while (device_->state()) std::this_thread::yield();  // told a moment after the event
  EXPECT_EQ(error_of(device_->state()).code, Code::device_lost);
  EXPECT_THAT(error_of(device_->state()).message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EQ(error_of(in_->copy_in(there_, 0, bytes_)).code, Code::device_lost);
}

// The copy hears of it from the driver as soon as the kernel does.
TEST_F(CudaStubDevice, ACopyIsNotBlamedForAKernelsFault) {
  for (int round = 0; round < 20; ++round) {
    Kernel add = kernel("add");
    std::vector<DeviceEvent> copies;
    fault_next("cuLaunchKernel", kIllegalAddress);
    for (int i = 0; i < 3; ++i) copies.push_back(*in_->copy_in(there_, 0, bytes_));
    const auto bad = compute_->launch(add, {there_, 10u, 1u}, {});
    for (const DeviceEvent& copy : copies) {
      const auto ended = copy.wait();
      if (!ended) {
        EXPECT_EQ(ended.error().code, Code::device_lost);
      }
    }
    ASSERT_TRUE(bad);
    EXPECT_EQ(error_of(bad->wait()).code, Code::kernel_fault);
    add = {};
    close();
    await_end();
    call<void>("cuda_stub_revive");
    open({});
  }
}

TEST_F(CudaStubDevice, ADeviceThatIsGoneEndsEverything) {
  fault_next("cuMemcpyHtoDAsync_v2", kDeviceUnavailable);
  const auto copy = *in_->copy_in(there_, 0, bytes_);
  EXPECT_EQ(error_of(copy.wait()).code, Code::device_lost);
  EXPECT_EQ(error_of(device_->allocate(8)).code, Code::device_lost);
  EXPECT_EQ(error_of(compute_->record()).code, Code::device_lost);
}

TEST_F(CudaStubDevice, WhoeverHearsOfALossFirstSaysSoToAll) {
  fail_next("cuMemAlloc_v2", kDeviceUnavailable);
  EXPECT_EQ(error_of(device_->allocate(8)).code, Code::device_lost);
  EXPECT_EQ(error_of(device_->state()).code, Code::device_lost);
  EXPECT_EQ(error_of(in_->drain()).code, Code::device_lost);
}

TEST_F(CudaStubDevice, RefusedQueuesModulesAndOpeningsLeaveNothing) {
  for (const char* what :
       {"cuStreamCreate", "cuEventCreate", "cuEventRecord", "cuEventSynchronize"}) {
    fail_next(what, kNotPermitted);
    EXPECT_EQ(error_of(device_->open_queue(QueueRole::compute)).code, Code::system) << what;
  }
  fail_next("cuModuleLoadDataEx", kInvalidImage);
  EXPECT_EQ(error_of(device_->build({.name = "p", .cuda = {"void add(", {}}})).code,
            Code::build_failed);
}

// Freeing memory waits for kernels, in the driver: nobody may be held up by that.
TEST_F(CudaStubDevice, AKernelThatNeverEndsHoldsUpNobodyWhoGivesItUp) {
  const auto stuck = *compute_->launch(kernel("gate"), {}, {});
  while (call<int>("cuda_stub_gate_entered") == 0) std::this_thread::yield();
  EXPECT_EQ(error_of(stuck.wait(Deadline::now())).code, Code::timed_out);
  device_->abandon("it never ends");
  EXPECT_EQ(error_of(stuck.wait()).code, Code::device_lost);
  close();
  EXPECT_EQ(call<int>("cuda_stub_contexts"), 1);  // kept for the kernel
}

// ---- times ---------------------------------------------------------------------------------

// The device's clock runs ahead for a while: what comes after it has times of its own all the same,
// not only that of the host's hearing of it.
TEST_F(CudaStubDevice, TimesFollowAClockThatDrifts) {
  auto last = Deadline::Clock::now();
  const auto copy_once = [&] {
    const auto event = *in_->copy_in(there_, 0, bytes_);
    EXPECT_TRUE(event.wait());
    const auto now = Deadline::Clock::now();
    const auto timing = *event.timing();
    EXPECT_LE(timing.submitted, timing.began);
    EXPECT_LE(last, timing.began);
    EXPECT_LE(timing.began, timing.ended);
    EXPECT_LE(timing.ended, now);
    last = timing.ended;
    return timing.span();
  };
  for (const double rate : {1.0, 1e5, 1.0}) {
    call<void, double>("cuda_stub_clock_rate", rate);
    for (int i = 0; i < 100; ++i) EXPECT_GT(copy_once().count(), 0) << rate;
  }
}

}  // namespace
}  // namespace gantry
