#include "net/fabric/registrar.hpp"

#include "core/base/assert.hpp"
#include "core/base/os/block_signals.hpp"
#include "core/base/result.hpp"

#ifdef GANTRY_HAVE_LIBFABRIC
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <map>

#include "core/base/os/fork.hpp"
#include "core/base/os/memlock.hpp"
#include "net/fabric/library.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kAccess =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
// Nothing that makes the network write there: as verbs without local write.
constexpr std::uint64_t kReadAccess = FI_SEND | FI_WRITE | FI_REMOTE_READ;

/// The error for a call's result: 0 or a negative error of libfabric's own.
tl::unexpected<Error> refused(std::string_view what, int status) {
  if (status == -FI_ENOMEM) return fail_memlock(what, ENOMEM);
  return fail(Code::system, fmt::format("{}: {}", what, libfabric().strerror(-status)));
}

// ---- a domain of our own -------------------------------------------------------------------

class Domain {
 public:
  Domain() = default;
  // Not in a fork()ed child: it shares the domain's descriptors with its parent.
  ~Domain() {
    if (!fork_guard_.is_this()) return;
    const int domain = domain_ == nullptr ? 0 : ::fi_close(&domain_->fid);
    const int fabric = fabric_ == nullptr ? 0 : ::fi_close(&fabric_->fid);
    GANTRY_DEBUG_ASSERT(domain == 0 && fabric == 0);  // otherwise something of it is still open
    if (info_ != nullptr) libfabric().freeinfo(info_);
  }
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  Result<void> open(const std::string& provider) {
    const std::string what = "fabric-" + provider;
    const KeptHandlers kept;
    GANTRY_TRY(find_provider(provider, what));
    if (const int status = libfabric().fabric(info_->fabric_attr, &fabric_, nullptr); status != 0)
      return refused(what + ": opening the fabric", status);
    if (const int status = ::fi_domain(fabric_, info_, &domain_, nullptr); status != 0)
      return refused(what + ": opening the domain", status);
    return {};
  }
  [[nodiscard]] fid_domain* get() const noexcept { return domain_; }

 private:
  Result<void> find_provider(const std::string& provider, const std::string& what) {
    fi_info* const wanted = libfabric().dupinfo(nullptr);
    if (wanted == nullptr) return fail(Code::out_of_memory, what + ": out of memory");
    wanted->caps = FI_MSG | FI_RMA;
    wanted->mode = FI_CONTEXT;
    wanted->ep_attr->type = FI_EP_RDM;
    wanted->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    wanted->fabric_attr->prov_name = ::strdup(provider.c_str());  // freed by freeinfo()
    const int status = libfabric().getinfo(FI_VERSION(1, 14), nullptr, nullptr, 0, wanted, &info_);
    libfabric().freeinfo(wanted);
    if (status == 0) return {};
    if (status != -FI_ENODATA && status != -FI_ENOSYS)
      return refused(what + ": looking for the provider", status);
    return fail(Code::unsupported, what + ": no such provider works on this machine",
                "apt install libfabric-bin; fi_info lists those that do");
  }

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  const ForkGuard fork_guard_;
};

// ---- the registrar -------------------------------------------------------------------------

class FabricRegistrar final : public Registrar {
 public:
  FabricRegistrar(std::string name, const FabricRegistrarOptions& options, fid_domain* domain,
                  std::unique_ptr<Domain> own)
      : Registrar(std::move(name), options.limits),
        own_(std::move(own)),
        domain_(domain),
        access_(options.remote_write ? kAccess : kAccess & ~std::uint64_t{FI_REMOTE_WRITE}) {}

 protected:
  Result<Keys> do_register(ByteSpan memory, DeviceAccess access) override {
    const auto entry = regions_.emplace(memory.data(), nullptr).first;  // nothing may fail later
    const std::uint64_t allowed = access_ & (access == DeviceAccess::read ? kReadAccess : kAccess);
    int status = -FI_ENOKEY;
    // If the provider does not choose remote keys we do, and others may have the same idea.
    for (int attempt = 0; attempt < 1000 && status == -FI_ENOKEY; ++attempt)
      status = ::fi_mr_reg(domain_, memory.data(), memory.size(), allowed, 0, next_key_++, 0,
                           &entry->second, nullptr);
    if (status != 0) {
      regions_.erase(entry);
      return refused(fmt::format("registering {} bytes", memory.size()), status);
    }
    return Keys{reinterpret_cast<std::uintptr_t>(::fi_mr_desc(entry->second)),
                ::fi_mr_key(entry->second)};
  }

  int do_unregister(const Keys&, ByteSpan memory) noexcept override {
    const auto entry = regions_.find(memory.data());
    const int status = ::fi_close(&entry->second->fid);
    regions_.erase(entry);
    return -status;  // its errors below 256 are errno values
  }

 private:
  const std::unique_ptr<Domain> own_;  // null: the user's
  fid_domain* const domain_;
  const std::uint64_t access_;
  std::map<const std::byte*, fid_mr*> regions_;  // by where they begin
  // Any 32 bits will do; those of an address keep registrars of one domain apart.
  std::uint64_t next_key_ = (reinterpret_cast<std::uintptr_t>(this) >> 4) & 0x7fff'ffff;
};

}  // namespace

Result<std::shared_ptr<Registrar>> make_fabric_registrar(const FabricRegistrarOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<Registrar>> {
    const BlockSignals blocked;  // of the threads that a provider starts
    if (!libfabric().missing.empty())
      return fail(Code::unsupported, "fabric: " + libfabric().missing, "apt install libfabric1");
    if (options.domain != nullptr)
      return std::make_shared<FabricRegistrar>("fabric", options,
                                               static_cast<fid_domain*>(options.domain), nullptr);
    auto own = std::make_unique<Domain>();
    GANTRY_TRY(own->open(options.provider));
    fid_domain* const domain = own->get();
    return std::make_shared<FabricRegistrar>("fabric-" + options.provider, options, domain,
                                             std::move(own));
  });
}

}  // namespace gantry

#else

namespace gantry {

Result<std::shared_ptr<Registrar>> make_fabric_registrar(const FabricRegistrarOptions&) {
  return fail(Code::unsupported, "fabric: not in this build",
              "apt install libfabric-dev and build again");
}

}  // namespace gantry

#endif
