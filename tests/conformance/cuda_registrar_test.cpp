#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cuda/cuda_registrar.hpp"

// The CUDA registrar against a driver that counts (cuda_stub.cpp).
namespace gantry {
namespace {

using testing::HasSubstr;

class CudaStub : public testing::Test {
 protected:
  template <class Function>
  [[nodiscard]] Function find(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(library_, name));
  }
  [[nodiscard]] int live() const { return find<int (*)()>("cuda_stub_live")(); }
  [[nodiscard]] int contexts() const { return find<int (*)()>("cuda_stub_contexts")(); }
  void refuse(int times) const { find<void (*)(int)>("cuda_stub_refuse")(times); }

  [[nodiscard]] static Result<std::shared_ptr<Registrar>> make(int device = 0) {
    return make_cuda_registrar({.device = device, .library = GANTRY_CUDA_STUB});
  }

  void* const library_ = ::dlopen(GANTRY_CUDA_STUB, RTLD_NOW | RTLD_LOCAL);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(10000);
};

TEST_F(CudaStub, CountsWhatIsRegistered) {
  auto registrar = *make();
  EXPECT_EQ(contexts(), 1);
  auto known = *registrar->register_memory(bytes_);
  EXPECT_EQ(live(), 1);
  EXPECT_EQ(known.key()->key, reinterpret_cast<std::uintptr_t>(bytes_.data()));
  known = {};
  EXPECT_EQ(live(), 0);
  registrar.reset();
  EXPECT_EQ(contexts(), 0);
}

TEST_F(CudaStub, TheDriversRefusalIsTheError) {
  const auto registrar = *make();
  const auto first = registrar->register_memory(ByteSpan(bytes_).first(100));
  refuse(1);
  const auto refused = registrar->register_memory(ByteSpan(bytes_).last(100));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  EXPECT_EQ(refused.error().message, "cuda: registering 100 bytes: out of memory (CUDA error 2)");
  EXPECT_EQ(registrar->report().registrations, 1u);
  EXPECT_EQ(live(), 1);
  EXPECT_TRUE(registrar->register_memory(ByteSpan(bytes_).last(100)));
}

// Not every device can have memory registered that it may only read.
TEST_F(CudaStub, ADeviceThatMustWriteRefusesWhatIsForReading) {
  const auto registrar = *make();
  find<void (*)(const char*, int)>("cuda_stub_fail")("cuMemHostRegister_v2", 801);
  const auto refused = registrar->register_memory(bytes_, DeviceAccess::read);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_THAT(refused.error().hint, HasSubstr("copy from it"));
  EXPECT_TRUE(registrar->register_memory(bytes_, DeviceAccess::read));
}

TEST_F(CudaStub, LeavesTheCallersContextCurrent) {
  int theirs = 0;
  find<void (*)(void*)>("cuda_stub_set_current")(&theirs);
  const auto registrar = *make();
  EXPECT_TRUE(registrar->register_memory(bytes_));
  EXPECT_EQ(find<void* (*)()>("cuda_stub_current")(), &theirs);
  find<void (*)(void*)>("cuda_stub_set_current")(nullptr);
}

TEST_F(CudaStub, NoDriverOrDeviceIsUnsupportedAndSaysHowToMend) {
  const auto no_driver = make_cuda_registrar({.library = "libno-such-driver.so.1"});
  ASSERT_FALSE(no_driver);
  EXPECT_EQ(no_driver.error().code, Code::unsupported);
  EXPECT_EQ(no_driver.error().message, "cuda: libno-such-driver.so.1 cannot be opened");
  EXPECT_THAT(no_driver.error().hint, HasSubstr("driver"));
  const auto other_library = make_cuda_registrar({.library = "libc.so.6"});
  ASSERT_FALSE(other_library);
  EXPECT_EQ(other_library.error().message, "cuda: the driver has no cuInit");
  const auto no_device = make(3);
  ASSERT_FALSE(no_device);
  EXPECT_EQ(no_device.error().code, Code::unsupported);
  EXPECT_THAT(no_device.error().message, HasSubstr("device 3"));
  EXPECT_EQ(contexts(), 0);
}

}  // namespace
}  // namespace gantry
