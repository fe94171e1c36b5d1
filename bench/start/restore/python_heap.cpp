// The memory of a Python process that has built what a service keeps.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "../../support/process/child.hpp"
#include "../../support/system/interrupt.hpp"
#include "../files.hpp"
#include "contents.hpp"

namespace gantry::bench {
namespace {

// Some 930 bytes an item, and 8 MiB of the interpreter's.
constexpr const char* kService = R"(
import collections, json, random, signal, sys
random.seed(22)
WORDS = [''.join(random.choices('aeioulnrst', k=random.randint(3, 9))) for _ in range(4000)]

class Item:
    def __init__(self, number):
        self.number = number
        self.title = ' '.join(random.choices(WORDS, k=4))
        self.price = round(random.lognormvariate(3, 1), 2)
        self.tags = random.sample(WORDS[:200], 3)
        self.stock = {place: random.randint(0, 500) for place in ('north', 'south', 'west')}
        self.token = '%032x' % random.getrandbits(128)

items, by_token, by_word = [], {}, collections.defaultdict(list)
rendered = collections.OrderedDict()
for number in range(max(1000, (int(sys.argv[1]) - (8 << 20)) // 930)):
    item = Item(number)
    items.append(item)
    by_token[item.token] = item
    for word in item.title.split():
        by_word[word].append(number)
    if number % 4 == 0:
        rendered[number] = json.dumps(vars(item)).encode()
        json.loads(rendered[number])
sys.stdout.write('.')
sys.stdout.flush()
signal.pause()
)";

/// In the child: becomes that process, whose output is `output`.
void become_service(Link& link, int output, Bytes bytes) {
  ::setenv("PYTHONHASHSEED", "0", 1);
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nowhere >= 0 && ::dup2(nowhere, STDIN_FILENO) >= 0 && ::dup2(nowhere, STDERR_FILENO) >= 0 &&
      ::dup2(output, STDOUT_FILENO) >= 0)
    ::execlp("python3", "python3", "-c", kService, std::to_string(bytes).c_str(), nullptr);
  link.send(Answer::failure(to_string(system_error("python3"))));
}

/// Waits until it has built everything, and lives on.
Result<void> await_service(Child& child, Descriptor output, int interrupt_descriptor) {
  std::array waiting{pollfd{output.get(), POLLIN, 0}, pollfd{interrupt_descriptor, POLLIN, 0}};
  while (::poll(waiting.data(), waiting.size(), -1) < 0)
    if (errno != EINTR) return Unexpected(system_error("poll"));
  if (auto going = check_interrupt(interrupt_descriptor); !going) return going;
  std::byte dot{};
  if (read_all(output.get(), {&dot, 1})) return {};
  if (const auto answer = child.link().receive<Answer>())
    return Unexpected({Code::not_found, answer->text.data(), "install Python 3"});
  child.wait(std::chrono::seconds(1));
  return Unexpected({Code::not_found, "python3 ended before its heap was there", {}});
}

struct Extent {
  Bytes at = 0;
  Bytes bytes = 0;
};

/// What it may write and no file stands behind.
std::vector<Extent> anonymous_memory(pid_t process) {
  std::ifstream in(fmt::format("/proc/{}/maps", process));
  std::vector<Extent> extents;
  for (std::string range, rights, skip, inode; in >> range >> rights >> skip >> skip >> inode;) {
    std::getline(in, skip);
    const std::size_t dash = range.find('-');
    const Bytes begin = std::stoull(range.substr(0, dash), nullptr, 16);
    const Bytes end = std::stoull(range.substr(dash + 1), nullptr, 16);
    if (rights == "rw-p" && inode == "0") extents.push_back({begin, end - begin});
  }
  return extents;
}

}  // namespace

Result<Snapshot> make_python_heap(const ContentOrder& order) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Unexpected(system_error("pipe2"));
  Descriptor output(ends[0]), input(ends[1]);
  auto child = Child::start("python3", kAnyCpu,
                            [&](Link& link) { become_service(link, input.get(), order.bytes); });
  if (!child) return Unexpected(child.error());
  input.reset();
  if (auto built = await_service(*child, std::move(output), order.interrupt_descriptor); !built)
    return Unexpected(built.error());
  const auto file = open_to_read(fmt::format("/proc/{}/mem", child->pid()));
  if (!file) return Unexpected(file.error());
  const std::vector<Extent> extents = anonymous_memory(child->pid());
  Bytes bytes = 0;
  for (const Extent& one : extents) bytes += one.bytes;
  auto made = make_zeros(bytes);
  if (!made) return made;
  ByteSpan memory = made->region(kMemory).value();
  for (const Extent& one : extents) {
    if (auto read = read_at(*file, one.at, memory.first(one.bytes)); !read)
      return Unexpected(read.error());
    memory = memory.subspan(one.bytes);
  }
  return made;
}

}  // namespace gantry::bench
