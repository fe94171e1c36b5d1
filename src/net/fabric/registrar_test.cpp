#include "net/fabric/registrar.hpp"

#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <cstring>
#include <vector>

// With the domain of a user's own endpoints; what all registrars do is in tests/conformance/.
namespace gantry {
namespace {

class FabricRegistrar : public testing::Test {
 protected:
  void SetUp() override {
    fi_info* const wanted = ::fi_allocinfo();
    ASSERT_NE(wanted, nullptr);
    wanted->caps = FI_MSG | FI_RMA;
    wanted->ep_attr->type = FI_EP_RDM;
    wanted->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    wanted->fabric_attr->prov_name = ::strdup("tcp");
    const int found = ::fi_getinfo(FI_VERSION(1, 14), nullptr, nullptr, 0, wanted, &info_);
    ::fi_freeinfo(wanted);
    if (found != 0) GTEST_SKIP() << "the tcp provider does not work here";
    ASSERT_EQ(::fi_fabric(info_->fabric_attr, &fabric_, nullptr), 0);
    ASSERT_EQ(::fi_domain(fabric_, info_, &domain_, nullptr), 0);
  }
  void TearDown() override {
    if (domain_ != nullptr) {
      EXPECT_EQ(::fi_close(&domain_->fid), 0) << "something of it is still in use";
    }
    if (fabric_ != nullptr) ::fi_close(&fabric_->fid);
    if (info_ != nullptr) ::fi_freeinfo(info_);
  }
  std::shared_ptr<Registrar> registrar() {
    FabricRegistrarOptions options;
    options.domain = domain_;
    return *make_fabric_registrar(options);
  }

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  std::vector<std::byte> memory_ = std::vector<std::byte>(100'000);
};

TEST_F(FabricRegistrar, LeavesNothingInTheUsersDomain) {
  const auto mine = registrar();
  const auto registration = mine->register_memory(memory_);
  ASSERT_TRUE(registration) << registration.error().message;
  EXPECT_TRUE(registration->key());
}

TEST_F(FabricRegistrar, TwoOnOneDomainDoNotTakeEachOthersKeys) {
  const auto one = registrar();
  const auto other = registrar();
  std::vector<std::byte> more(5000);
  const auto first = one->register_memory(memory_);
  const auto second = other->register_memory(more);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->key()->remote_key, second->key()->remote_key);
}

}  // namespace
}  // namespace gantry
