#include "device/dsa/device_queue.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "device/dsa/test_engine.hpp"

// A machine made of files in a folder, and a kernel that answers as a test wants.
namespace gantry::dsa {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Machine {
 public:
  Machine() {
    std::string name = (fs::temp_directory_path() / "gantry-dsa-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~Machine() { fs::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] std::string root() const { return root_.string(); }
  void file(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void pci() const {
    file("sys/bus/pci/devices/0000:6a:01.0/vendor", "0x8086");
    file("sys/bus/pci/devices/0000:6a:01.0/device", "0x0b25");
  }
  void device(const std::string& sva = "1") const {
    pci();
    file("sys/bus/dsa/devices/dsa0/pasid_enabled", sva);
    file("sys/bus/dsa/devices/dsa0/version", "0x100");
    file("sys/bus/dsa/devices/dsa0/max_batch_size", "1024");
  }
  void queue(const std::string& name, const std::string& type, const std::string& mode,
             const std::string& state = "enabled") const {
    const std::string at = "sys/bus/dsa/devices/dsa0/" + name + "/";
    file(at + "type", type);
    file(at + "mode", mode);
    file(at + "state", state);
    file(at + "size", "8");
    file(at + "threshold", "6");
    file(at + "max_transfer_size", "65536");
    file(at + "max_batch_size", "16");
    file("dev/dsa/" + name, "");
  }

 private:
  fs::path root_;
};

/// A kernel whose queue is a device model.
class FakeKernel : public DeviceCalls {
 public:
  explicit FakeKernel(QueueKind kind = QueueKind::shared) : model(make_model({.kind = kind})) {}
  PortalFeatures features() const noexcept override { return has; }
  int open(const char* path) noexcept override {
    opened = path;
    errno = open_error;
    return open_error != 0 ? -1 : ::open("/dev/null", O_RDWR | O_CLOEXEC);
  }
  void* map(int) noexcept override {
    errno = map_error;
    return map_error != 0 ? MAP_FAILED : page;
  }
  void unmap(void*) noexcept override { ++unmapped; }
  ssize_t write(int, ConstByteSpan descriptors) noexcept override {
    errno = write_error;
    return write_error != 0 ? -1 : model->write(descriptors);
  }
  bool enqcmd(void* portal, const Descriptor& descriptor) noexcept override {
    EXPECT_TRUE(portal >= page && portal < page + sizeof page);
    return model->enqcmd(descriptor);
  }
  void movdir64b(void*, const Descriptor& descriptor) noexcept override {
    model->movdir64b(descriptor);
  }

  std::shared_ptr<DeviceModel> model;
  PortalFeatures has{.movdir64b = true, .enqcmd = true};
  int open_error = 0, map_error = 0, write_error = 0, unmapped = 0;
  std::string opened;
  alignas(64) std::byte page[4096];
};

void expect_refused(const DsaStatus& status, const std::string& why, const std::string& mend) {
  EXPECT_FALSE(status.usable);
  EXPECT_THAT(status.why, HasSubstr(why));
  EXPECT_THAT(status.mend, HasSubstr(mend));
}

TEST(DsaDiscovery, TellsNoHardwareFromNoDriverFromNoDevice) {
  const Machine none;
  expect_refused(probe(none.root()), "this machine has no Intel DSA", "Sapphire Rapids");
  const Machine unloaded;
  unloaded.pci();
  expect_refused(probe(unloaded.root()), "idxd is not loaded", "modprobe idxd");
  const Machine empty;
  empty.pci();
  empty.file("sys/bus/dsa/drivers_probe", "");
  expect_refused(probe(empty.root()), "took no device", "dmesg");
}

TEST(DsaDiscovery, TellsWhatIsWrongWithItsQueues) {
  const Machine off;
  off.device("0");
  off.queue("wq0.0", "user", "shared");
  expect_refused(probe(off.root()), "SVA is off", "intel_iommu=on,sm_on");

  const Machine bare;
  bare.device();
  bare.queue("wq0.0", "none", "shared", "disabled");
  expect_refused(probe(bare.root()), "no shared work queue enabled",
                 "accel-config config-wq dsa0/wq0.0 --mode=shared");

  const Machine kernels;
  kernels.device();
  kernels.queue("wq0.0", "kernel", "shared");
  expect_refused(probe(kernels.root()), "dsa0/wq0.0 is of type kernel", "--type=user");

  const Machine disabled;
  disabled.device();
  disabled.queue("wq0.1", "user", "shared", "disabled");
  expect_refused(probe(disabled.root()), "dsa0/wq0.1 is configured but disabled",
                 "accel-config enable-wq dsa0/wq0.1");
}

TEST(DsaDiscovery, PrefersSharedQueuesAndReadsTheirLimits) {
  const Machine machine;
  machine.device();
  machine.queue("wq0.0", "user", "dedicated");
  machine.queue("wq0.1", "user", "shared");
  machine.queue("wq0.2", "kernel", "shared");
  const auto queues = find_queues(machine.root());
  ASSERT_TRUE(queues);
  ASSERT_EQ(queues->size(), 2u);
  const QueueFacts& first = queues->front();
  EXPECT_EQ(first.name, "wq0.1");
  EXPECT_EQ(first.path, machine.root() + "/dev/dsa/wq0.1");
  EXPECT_EQ(first.entries, 6u);  // the threshold
  EXPECT_EQ(first.max_transfer_bytes, 65536u);
  EXPECT_EQ(first.max_batch, 16u);
  EXPECT_EQ(first.version, 1u);
  EXPECT_EQ(queues->back().kind, QueueKind::dedicated);
  EXPECT_EQ(queues->back().entries, 8u);
}

class DsaOpening : public testing::Test {
 protected:
  DsaOpening() {
    machine_.device();
    machine_.queue("wq0.0", "user", "shared");
  }
  DsaStatus probed() { return probe(machine_.root(), kernel_); }
  Machine machine_;
  std::shared_ptr<FakeKernel> kernel_ = std::make_shared<FakeKernel>();
};

TEST_F(DsaOpening, ByThePortalWhereThatIsAllowed) {
  const DsaStatus status = probed();
  EXPECT_TRUE(status.usable);
  EXPECT_THAT(status.why, HasSubstr("wq0.0, shared, 6 entries, by ENQCMD"));
  EXPECT_EQ(status.mend, "");
  EXPECT_EQ(kernel_->opened, machine_.root() + "/dev/dsa/wq0.0");
  EXPECT_EQ(kernel_->model->counts().accepted, 1u);  // the proof
  EXPECT_EQ(kernel_->unmapped, 1);
}

TEST_F(DsaOpening, ByWriteWhereThePortalIsNotAndSaysWhy) {
  kernel_->map_error = EPERM;
  EXPECT_THAT(probed().why, HasSubstr("portal needs CAP_SYS_RAWIO, using write()"));
  kernel_->map_error = EIO;
  EXPECT_THAT(probed().why, HasSubstr("portal cannot be mapped"));
  kernel_->has.enqcmd = false;
  EXPECT_THAT(probed().why, HasSubstr("this CPU has no ENQCMD, using write()"));
  const auto queue = open_any_queue(machine_.root(), kernel_);
  ASSERT_TRUE(queue);
  EXPECT_EQ((*queue)->traits().entrance, Entrance::write);
  EXPECT_EQ((*queue)->traits().max_batch, 0u);
}

TEST_F(DsaOpening, SaysWhyItCannot) {
  kernel_->open_error = EACCES;
  ::chmod((machine_.root() + "/dev/dsa/wq0.0").c_str(), 0600);
  expect_refused(probed(), "no permission to open it; it is for user ", "chgrp");
  EXPECT_THAT(probed().why, HasSubstr("/dev/dsa/wq0.0"));
  EXPECT_THAT(probed().why, HasSubstr("mode 600"));
  kernel_->open_error = EBUSY;
  expect_refused(probed(), "which another program has open", "shared");
  kernel_->open_error = ENXIO;
  expect_refused(probed(), "has no device file", "--device=");
  kernel_->open_error = EIO;
  expect_refused(probed(), "opening ", "dmesg");
}

TEST_F(DsaOpening, SaysThatNeitherEntranceIsThere) {
  kernel_->map_error = EPERM;
  kernel_->write_error = EINVAL;
  expect_refused(probed(), "portal needs CAP_SYS_RAWIO", "Linux 6.9.1");
}

TEST_F(DsaOpening, OfADeviceThatDoesNotAnswerGivesUp) {
  kernel_->model->halt(Halt::accepts);
  const auto queues = find_queues(machine_.root());
  const auto answer = open_device_queue(queues->front(), kernel_, kShortLimit);
  EXPECT_EQ(answer.error().code, Code::timed_out);
  EXPECT_THAT(answer.error().message, HasSubstr("was not answered"));
  kernel_->model->halt(Halt::refuses);
  EXPECT_THAT(open_device_queue(queues->front(), kernel_, kShortLimit).error().message,
              HasSubstr("stays full"));
}

TEST_F(DsaOpening, ABusyQueueIsPassedOverForAnotherOne) {
  machine_.queue("wq0.1", "user", "dedicated");
  class Busy : public FakeKernel {
   public:
    Busy() : FakeKernel(QueueKind::dedicated) {}
    int open(const char* path) noexcept override {
      open_error = std::string_view(path).ends_with("wq0.0") ? EACCES : 0;
      return FakeKernel::open(path);
    }
  };
  const DsaStatus status = probe(machine_.root(), std::make_shared<Busy>());
  EXPECT_THAT(status.why, HasSubstr("wq0.1, dedicated, 8 entries, by MOVDIR64B"));
}

// The whole way: files, portal, engine.
TEST_F(DsaOpening, AnEngineRunsOnTheQueueItOpened) {
  for (const int map_error : {0, EPERM}) {
    kernel_->map_error = map_error;
    auto queue = open_any_queue(machine_.root(), kernel_);
    ASSERT_TRUE(queue);
    const auto engine = *make_dsa_engine(std::move(*queue));
    EXPECT_EQ(engine->name(), "dsa");
    const auto lane = *engine->open_lane();
    const Buffer source = random_bytes(300'000, 1);
    Buffer copy(source.size());
    EXPECT_EQ(lane->wait(*lane->submit(Move::copy(copy, source))), Outcome::done);
    EXPECT_TRUE(copy == source);
  }
}

TEST(DsaPortal, IsUsedOnlyWhereTheCpuHasIt) {
  // Asking must not fault; what it says is the machine's.
  const PortalFeatures has = portal_features();
  EXPECT_TRUE(has.movdir64b || !has.enqcmd);  // no CPU has the one without the other
  EXPECT_EQ(can_wait_on_memory(), has.waitpkg);
  CompletionRecord answered;
  answered.status = 1;
  if (has.waitpkg) wait_on_memory(&answered, std::chrono::nanoseconds(1000));
}

}  // namespace
}  // namespace gantry::dsa
