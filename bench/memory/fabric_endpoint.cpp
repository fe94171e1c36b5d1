#include "fabric_endpoint.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstring>

namespace gantry::bench {
namespace {

constexpr const char* kLibrary = "libfabric.so.1";
constexpr const char* kLoopback = "127.0.0.1";

/// The functions that are called by name; all else goes through the objects they give.
struct Api {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  bool is_there = false;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

const Api& libfabric() {
  static const Api api = [] {
    Api found;
    void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    found.is_there = library != nullptr && find(library, "fi_getinfo", found.getinfo) &&
                     find(library, "fi_freeinfo", found.freeinfo) &&
                     find(library, "fi_dupinfo", found.dupinfo) &&
                     find(library, "fi_fabric", found.fabric) &&
                     find(library, "fi_strerror", found.strerror);
    return found;
  }();
  return api;
}

Result<void> check(std::string_view what, ssize_t status) {
  if (status >= 0) return {};
  return Unexpected(
      {Code::system,
       fmt::format("libfabric: {}: {}", what, libfabric().strerror(static_cast<int>(-status))),
       ""});
}

Result<fi_info*> find_provider() {
  fi_info* const wanted = libfabric().dupinfo(nullptr);
  if (wanted == nullptr) return Unexpected({Code::out_of_memory, "libfabric: no memory", ""});
  wanted->caps = FI_MSG | FI_RMA;
  wanted->mode = FI_CONTEXT | FI_CONTEXT2;
  wanted->ep_attr->type = FI_EP_RDM;
  wanted->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  wanted->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  wanted->fabric_attr->prov_name = ::strdup("tcp");  // freed by freeinfo()
  fi_info* found = nullptr;
  const int status =
      libfabric().getinfo(FI_VERSION(1, 14), kLoopback, nullptr, FI_SOURCE, wanted, &found);
  libfabric().freeinfo(wanted);
  if (const auto well = check("the tcp provider", status); !well) return Unexpected(well.error());
  return found;
}

template <class Object>
void close(Object* object) {
  if (object != nullptr) ::fi_close(&object->fid);
}

}  // namespace

Endpoint::~Endpoint() {
  close(endpoint_);
  close(completions_);
  close(addresses_);
  close(domain_);
  close(fabric_);
  if (info_ != nullptr) libfabric().freeinfo(info_);
}

Result<void> Endpoint::open() {
  if (!libfabric().is_there)
    return Unexpected({Code::unsupported, fmt::format("{} cannot be opened", kLibrary),
                       "apt install libfabric1"});
  const auto info = find_provider();
  if (!info) return Unexpected(info.error());
  info_ = *info;
  fi_av_attr av{};
  av.type = FI_AV_TABLE;
  fi_cq_attr cq{};
  cq.format = FI_CQ_FORMAT_CONTEXT;
  int status = libfabric().fabric(info_->fabric_attr, &fabric_, nullptr);
  if (status == 0) status = ::fi_domain(fabric_, info_, &domain_, nullptr);
  if (status == 0) status = ::fi_av_open(domain_, &av, &addresses_, nullptr);
  if (status == 0) status = ::fi_cq_open(domain_, &cq, &completions_, nullptr);
  if (status == 0) status = ::fi_endpoint(domain_, info_, &endpoint_, nullptr);
  if (status == 0) status = ::fi_ep_bind(endpoint_, &addresses_->fid, 0);
  if (status == 0) status = ::fi_ep_bind(endpoint_, &completions_->fid, FI_TRANSMIT | FI_RECV);
  if (status == 0) status = ::fi_enable(endpoint_);
  return check("opening an endpoint", status);
}

Result<RemoteMemory> Endpoint::offer(ByteSpan memory, std::uint64_t key) const {
  RemoteMemory offered;
  std::size_t size = offered.address.size();
  const int status = ::fi_getname(&endpoint_->fid, offered.address.data(), &size);
  if (const auto named = check("fi_getname", status); !named) return Unexpected(named.error());
  const bool by_address = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  offered.base = by_address ? reinterpret_cast<std::uintptr_t>(memory.data()) : 0;
  offered.key = key;
  return offered;
}

Result<void> Endpoint::connect(const RemoteMemory& remote) {
  remote_ = remote;
  const int added = ::fi_av_insert(addresses_, remote_.address.data(), 1, &peer_, 0, nullptr);
  if (added == 1) return {};
  return check("fi_av_insert", added < 0 ? added : -FI_EINVAL);
}

Result<void> Endpoint::write(ConstByteSpan bytes, std::uint64_t descriptor) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a registration's descriptor is a pointer in a key
  void* const local = reinterpret_cast<void*>(descriptor);
  ssize_t status = -FI_EAGAIN;
  while (status == -FI_EAGAIN) {
    status = ::fi_write(endpoint_, bytes.data(), bytes.size(), local, peer_, remote_.base,
                        remote_.key, &context_);
    if (status != -FI_EAGAIN) break;
    if (const auto worked = progress(); !worked) return Unexpected(worked.error());
  }
  if (const auto posted = check("fi_write", status); !posted) return posted;
  while (true) {
    const auto ended = progress();
    if (!ended) return Unexpected(ended.error());
    if (*ended > 0) return {};
  }
}

Result<unsigned> Endpoint::progress() {
  fi_cq_entry entry{};
  const ssize_t ended = ::fi_cq_read(completions_, &entry, 1);
  if (ended == -FI_EAGAIN) return 0;
  if (ended >= 0) return static_cast<unsigned>(ended);
  fi_cq_err_entry failure{};
  if (ended == -FI_EAVAIL && ::fi_cq_readerr(completions_, &failure, 0) == 1)
    return Unexpected(check("an operation", -failure.err).error());
  return Unexpected(check("fi_cq_read", ended).error());
}

}  // namespace gantry::bench
