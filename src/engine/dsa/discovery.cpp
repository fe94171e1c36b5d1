#include "engine/dsa/discovery.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "base/result.hpp"

namespace gantry::dsa {
namespace {

namespace fs = std::filesystem;

// The idxd driver's files, as in Documentation/ABI/stable/sysfs-driver-dma-idxd. libaccel-config
// reads the same, so it is not needed.
std::string read_word(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

std::uint64_t read_number(const fs::path& file, std::uint64_t otherwise) {
  const std::string word = read_word(file);
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(word.c_str(), &end, 0);
  return word.empty() || *end != '\0' ? otherwise : number;
}

std::vector<fs::path> entries_of(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().filename().native().starts_with(prefix)) found.push_back(entry->path());
  std::sort(found.begin(), found.end());
  return found;
}

// Sapphire, Emerald and Granite Rapids; Granite Rapids D; Diamond Rapids.
bool has_pci_device(const std::string& root) {
  constexpr std::array kModels{std::uint64_t{0x0b25}, std::uint64_t{0x11fb}, std::uint64_t{0x1212}};
  for (const fs::path& device : entries_of(root + "/sys/bus/pci/devices", ""))
    if (read_number(device / "vendor", 0) == 0x8086 &&
        std::find(kModels.begin(), kModels.end(), read_number(device / "device", 0)) !=
            kModels.end())
      return true;
  return false;
}

tl::unexpected<Error> no_device(const std::string& root) {
  const bool hardware = has_pci_device(root);
  std::error_code ignored;
  if (!hardware)
    return fail(Code::unsupported, "this machine has no Intel DSA",
                "it comes with Xeon processors from Sapphire Rapids on; a virtual machine needs "
                "one passed to it");
  if (!fs::exists(root + "/sys/bus/dsa", ignored))
    return fail(Code::unsupported, "the machine has Intel DSA, but its driver idxd is not loaded",
                "sudo modprobe idxd (a kernel with CONFIG_INTEL_IDXD)");
  return fail(Code::unsupported, "the driver idxd is loaded but took no device",
              "see dmesg for idxd; the firmware may have it switched off");
}

struct Seen {
  std::vector<QueueFacts> usable;
  std::string first_device;
  std::string kernels;         // a queue of type kernel
  std::string disabled;        // "dsa0/wq0.1", of type user
  std::string other;           // of another type
  bool shared_memory = false;  // SVA is on for a device
};

QueueFacts facts_of(const std::string& root, const fs::path& device, const fs::path& queue) {
  QueueFacts facts;
  facts.name = queue.filename();
  facts.device = device.filename();
  facts.path = root + "/dev/dsa/" + facts.name;
  facts.kind = read_word(queue / "mode") == "dedicated" ? QueueKind::dedicated : QueueKind::shared;
  facts.version = static_cast<unsigned>(read_number(device / "version", 0x100) >> 8);
  const std::uint64_t size = read_number(queue / "size", 1);
  // A shared queue takes only so many from anybody but the kernel.
  const std::uint64_t most = facts.kind == QueueKind::shared
                                 ? std::min(size, read_number(queue / "threshold", size))
                                 : size;
  facts.entries = static_cast<unsigned>(std::clamp<std::uint64_t>(most, 1, 1024));
  facts.max_transfer_bytes = read_number(queue / "max_transfer_size",
                                         read_number(device / "max_transfer_size", Bytes{2} << 20));
  facts.max_transfer_bytes = std::clamp<Bytes>(facts.max_transfer_bytes, 64, Bytes{1} << 31);
  facts.max_batch = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      read_number(queue / "max_batch_size", read_number(device / "max_batch_size", 0)), 1u << 16));
  return facts;
}

void look_at_queue(const std::string& root, const fs::path& device, const fs::path& queue,
                   Seen& seen) {
  const std::string type = read_word(queue / "type");
  const std::string name = device.filename().string() + "/" + queue.filename().string();
  if (type == "kernel")
    seen.kernels = name;
  else if (type == "user" && read_word(queue / "state") == "enabled")
    seen.usable.push_back(facts_of(root, device, queue));
  else if (type == "user")
    seen.disabled = name;
}

Seen look_at_devices(const std::string& root, const std::vector<fs::path>& devices) {
  Seen seen;
  for (const fs::path& device : devices) {
    if (seen.first_device.empty()) seen.first_device = device.filename();
    const bool sva = read_number(device / "pasid_enabled", 0) == 1;
    seen.shared_memory = seen.shared_memory || sva;
    if (!sva) continue;
    for (const fs::path& queue : entries_of(device, "wq")) look_at_queue(root, device, queue, seen);
  }
  return seen;
}

std::string how_to_configure(const std::string& device) {
  const std::string number = device.substr(3);
  return fmt::format(
      "accel-config config-wq {0}/wq{1}.0 --mode=shared --type=user --name=gantry "
      "--driver-name=user --group-id=0 --wq-size=16 --threshold=16 --priority=10 && accel-config "
      "config-engine {0}/engine{1}.0 --group-id=0 && accel-config enable-device {0} && "
      "accel-config enable-wq {0}/wq{1}.0",
      device, number);
}

tl::unexpected<Error> no_queue(const Seen& seen) {
  if (!seen.shared_memory)
    return fail(
        Code::unsupported,
        fmt::format("{}: SVA is off, so it cannot see a program's memory", seen.first_device),
        "boot with intel_iommu=on,sm_on (and VT-d switched on in the firmware)");
  if (!seen.disabled.empty())
    return fail(
        Code::not_found,
        fmt::format("no shared work queue enabled: {} is configured but disabled", seen.disabled),
        fmt::format("accel-config enable-device {} && accel-config enable-wq {}",
                    seen.disabled.substr(0, seen.disabled.find('/')), seen.disabled));
  if (!seen.kernels.empty())
    return fail(Code::not_found,
                fmt::format("no work queue for programs: {} is of type kernel", seen.kernels),
                how_to_configure(seen.first_device) +
                    " (a queue that is enabled has to be "
                    "disabled first)");
  return fail(Code::not_found, "no shared work queue enabled", how_to_configure(seen.first_device));
}

}  // namespace

Result<std::vector<QueueFacts>> find_queues(const std::string& root) {
  const std::vector<fs::path> devices = entries_of(root + "/sys/bus/dsa/devices", "dsa");
  if (devices.empty()) return no_device(root);
  Seen seen = look_at_devices(root, devices);
  if (seen.usable.empty()) return no_queue(seen);
  const auto is_better = [](const QueueFacts& a, const QueueFacts& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.entries > b.entries;
  };
  // Keeps equals in the order in which they were found. Not std::stable_sort(), since the library's
  // own uses deprecated parts.
  std::vector<QueueFacts> best_first;
  for (QueueFacts& queue : seen.usable)
    best_first.insert(std::upper_bound(best_first.begin(), best_first.end(), queue, is_better),
                      std::move(queue));
  return best_first;
}

Result<std::unique_ptr<WorkQueue>> open_any_queue(const std::string& root,
                                                  const std::shared_ptr<DeviceCalls>& calls) {
  GANTRY_ASSIGN(const std::vector<QueueFacts> queues, find_queues(root));
  Result<std::unique_ptr<WorkQueue>> first = open_device_queue(queues.front(), calls);
  for (std::size_t i = 1; !first && i < queues.size(); ++i)
    if (auto queue = open_device_queue(queues[i], calls)) return queue;
  return first;
}

std::string describe(const QueueTraits& traits) {
  std::string why = fmt::format("{}, {}, {} entries, by {}", traits.name,
                                traits.kind == QueueKind::shared ? "shared" : "dedicated",
                                traits.entries, to_string(traits.entrance));
  if (!traits.why.empty()) why += ": " + traits.why;
  if (traits.simulated) why += " (simulated)";
  return why;
}

DsaStatus probe(const std::string& root, const std::shared_ptr<DeviceCalls>& calls) {
  const auto queue = open_any_queue(root, calls);
  if (!queue) return {false, queue.error().message, queue.error().hint};
  return {true, describe((*queue)->traits()), {}};
}

}  // namespace gantry::dsa
