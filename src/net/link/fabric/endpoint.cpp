#include "net/link/fabric/endpoint.hpp"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "core/base/assert.hpp"
#include "core/base/os/block_signals.hpp"
#include "core/base/result.hpp"
#include "net/fabric/library.hpp"

namespace gantry {
namespace {

constexpr std::size_t kSecretBytes = 8;
constexpr std::size_t kMostAddressBytes = 128;
constexpr std::size_t kMostCompletions = 256;

tl::unexpected<Error> refused_by(std::string_view what, int status) {
  return fail(Code::system, fmt::format("fabric: {}: {}", what, libfabric().strerror(-status)));
}

int descriptor_of(fid* object) noexcept {
  int descriptor = -1;
  return ::fi_control(object, FI_GETWAIT, &descriptor) == 0 ? descriptor : -1;
}

template <class Object>
void close_object(Object*& object) noexcept {
  const int status = object == nullptr ? 0 : ::fi_close(&object->fid);
  // Refused while something of it is still open, which LeakSanitizer must not be asked about
  // (tests/conformance/fabric_leaks.cpp).
  GANTRY_DEBUG_ASSERT(status == 0);
  object = nullptr;
}

}  // namespace

FabricEndpoint::FabricEndpoint() {
  while (secret_ == 0) static_cast<void>(!::getrandom(&secret_, sizeof secret_, 0));
}

FabricEndpoint::~FabricEndpoint() {
  close();
  close_object(completions_);
  close_object(domain_);
  close_object(events_);
  close_object(fabric_);
  if (info_ != nullptr) libfabric().freeinfo(info_);
}

Result<void> FabricEndpoint::find_provider(const std::string& provider,
                                           const std::string& address) {
  fi_info* const wanted = libfabric().dupinfo(nullptr);
  if (wanted == nullptr) return fail(Code::out_of_memory, "fabric: out of memory");
  // Nobody writes our memory but ourselves, so remote writes are not asked for.
  wanted->caps = FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ;
  wanted->ep_attr->type = FI_EP_MSG;
  wanted->addr_format = FI_SOCKADDR_IN;
  wanted->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  wanted->fabric_attr->prov_name = ::strdup(provider.c_str());  // freed by freeinfo()
  const char* const node = address.empty() ? "127.0.0.1" : address.c_str();
  const int status =
      libfabric().getinfo(FI_VERSION(1, 14), node, nullptr, FI_SOURCE, wanted, &info_);
  libfabric().freeinfo(wanted);
  if (status == 0) return {};
  if (status != -FI_ENODATA && status != -FI_ENOSYS)
    return refused_by("looking for provider " + provider, status);
  return fail(Code::unsupported,
              fmt::format("fabric: provider {} has no message endpoints at {}", provider, node),
              "apt install libfabric-bin; fi_info lists what there is");
}

Result<void> FabricEndpoint::open(const std::string& provider, const std::string& local_address) {
  if (!libfabric().missing.empty())
    return fail(Code::unsupported, "fabric: " + libfabric().missing, "apt install libfabric1");
  const KeptHandlers kept;
  const BlockSignals blocked;  // of the threads that a provider starts
  GANTRY_TRY(find_provider(provider, local_address));
  fi_eq_attr event_attributes{};
  event_attributes.wait_obj = FI_WAIT_FD;
  fi_cq_attr completion_attributes{};
  completion_attributes.wait_obj = FI_WAIT_FD;
  completion_attributes.format = FI_CQ_FORMAT_CONTEXT;
  completion_attributes.size = kMostCompletions;
  int status = libfabric().fabric(info_->fabric_attr, &fabric_, nullptr);
  if (status == 0) status = ::fi_eq_open(fabric_, &event_attributes, &events_, nullptr);
  if (status == 0) status = ::fi_domain(fabric_, info_, &domain_, nullptr);
  if (status == 0) status = ::fi_cq_open(domain_, &completion_attributes, &completions_, nullptr);
  if (status == 0) status = ::fi_passive_ep(fabric_, info_, &listener_, nullptr);
  if (status == 0) status = ::fi_pep_bind(listener_, &events_->fid, 0);
  if (status == 0) status = ::fi_listen(listener_);
  std::size_t size = kMostAddressBytes;
  address_.resize(size);
  if (status == 0) status = ::fi_getname(&listener_->fid, address_.data(), &size);
  if (status != 0) return refused_by("opening an endpoint", status);
  address_.resize(size);
  return {};
}

std::vector<std::byte> FabricEndpoint::invitation() const {
  std::vector<std::byte> words;
  std::ranges::copy(std::as_bytes(std::span(&secret_, 1)), std::back_inserter(words));
  std::ranges::copy(address_, std::back_inserter(words));
  return words;
}

Result<void> FabricEndpoint::meet(ConstByteSpan invitation) {
  if (its_secret_ != 0 || invitation.size() != kSecretBytes + address_.size())
    return fail(Code::peer_misbehaved, "it is no fabric link, or says so twice");
  std::memcpy(&its_secret_, invitation.data(), kSecretBytes);
  if (its_secret_ == 0 || its_secret_ == secret_)
    return fail(Code::peer_misbehaved, "its endpoint has no secret of its own");
  if (secret_ > its_secret_ || phase_ != Phase::listening) return {};  // the other end connects
  const std::vector<std::byte> where(invitation.begin() + kSecretBytes, invitation.end());
  GANTRY_TRY(make_endpoint(info_));
  const int status = ::fi_connect(endpoint_, where.data(), &its_secret_, kSecretBytes);
  phase_ = status == 0 ? Phase::connecting : Phase::lost;
  return {};
}

Result<void> FabricEndpoint::make_endpoint(fi_info* info) {
  int status = ::fi_endpoint(domain_, info, &endpoint_, nullptr);
  if (status == 0) status = ::fi_ep_bind(endpoint_, &events_->fid, 0);
  if (status == 0) status = ::fi_ep_bind(endpoint_, &completions_->fid, FI_TRANSMIT | FI_RECV);
  if (status == 0) status = ::fi_enable(endpoint_);
  return status == 0 ? Result<void>() : refused_by("making an endpoint", status);
}

std::vector<int> FabricEndpoint::descriptors() const {
  return {descriptor_of(&events_->fid), descriptor_of(&completions_->fid)};
}

bool FabricEndpoint::may_sleep() const noexcept {
  if (phase_ == Phase::lost) return true;
  std::array<fid*, 2> objects{&events_->fid, &completions_->fid};
  return ::fi_trywait(fabric_, objects.data(), objects.size()) == 0;
}

bool FabricEndpoint::has_virtual_addresses() const noexcept {
  return (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
}

// Anybody may find the listener. Only the far end knows our secret.
void FabricEndpoint::take_request(fi_info* info, ConstByteSpan secret) {
  const bool is_known = phase_ == Phase::listening && secret.size() >= kSecretBytes &&
                        std::memcmp(secret.data(), &secret_, kSecretBytes) == 0;
  if (!is_known) {
    ::fi_reject(listener_, info->handle, nullptr, 0);
  } else if (make_endpoint(info) && ::fi_accept(endpoint_, nullptr, 0) == 0) {
    phase_ = Phase::connecting;
  } else {
    lose();
  }
  libfabric().freeinfo(info);
}

void FabricEndpoint::take_events() {
  for (;;) {
    alignas(fi_eq_cm_entry) std::array<std::byte, sizeof(fi_eq_cm_entry) + 64> bytes{};
    std::uint32_t event = 0;
    const ssize_t got = ::fi_eq_read(events_, &event, bytes.data(), bytes.size(), 0);
    if (got == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      static_cast<void>(::fi_eq_readerr(events_, &error, 0));
      if (endpoint_ != nullptr && error.fid == &endpoint_->fid) lose();
      continue;
    }
    if (got < 0) return;
    fi_eq_cm_entry entry{};
    std::memcpy(&entry, bytes.data(), sizeof entry);
    const auto size = static_cast<std::size_t>(got);
    if (event == FI_CONNREQ && size >= sizeof entry)
      take_request(entry.info, std::span(bytes).first(size).subspan(sizeof entry));
    else if (event == FI_CONNECTED && phase_ == Phase::connecting)
      phase_ = Phase::connected;
    else if (event == FI_SHUTDOWN)
      lose();
  }
}

FabricEndpoint::Posted FabricEndpoint::read(ByteSpan into, const RemoteMemory& from, Bytes offset,
                                            void* context) {
  const ssize_t status = ::fi_read(endpoint_, into.data(), into.size(), nullptr, 0,
                                   from.base + offset, from.key, context);
  if (status == -FI_EAGAIN) return Posted::full;
  if (status == 0) return Posted::yes;
  lose();
  return Posted::lost;
}

std::size_t FabricEndpoint::poll(std::span<Ended> ended) {
  take_events();
  std::size_t filled = 0;
  while (filled < ended.size()) {
    fi_cq_entry entry{};
    fi_cq_err_entry error{};
    const ssize_t got = ::fi_cq_read(completions_, &entry, 1);
    const bool is_error = got == -FI_EAVAIL && ::fi_cq_readerr(completions_, &error, 0) == 1;
    if (got != 1 && !is_error) break;
    if (is_error) lose();
    // After close() nobody waits for it any more.
    if (endpoint_ != nullptr)
      ended[filled++] = {is_error ? error.op_context : entry.op_context, !is_error};
  }
  return filled;
}

void FabricEndpoint::close() noexcept {
  lose();
  if (listener_ != nullptr) take_events();  // a request that nobody took would never be freed
  close_object(endpoint_);
  close_object(listener_);
}

}  // namespace gantry
