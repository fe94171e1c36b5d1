// A program that is linked with the core alone: channels work, and what other components add is
// refused with the name of the component. With the library of the component net as an argument it
// loads that, too: other hosts are then reached, even after dlclose().
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <gantry/runtime.hpp>

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "core_alone: not so: %s\n", what);
  ++failures;
}

template <class Value>
void expect_refusal(const gantry::Result<Value>& result, const char* component) {
  expect(!result, component);
  if (result) return;
  expect(result.error().code == gantry::Code::unsupported, result.error().message.c_str());
  expect(result.error().hint.find(component) != std::string::npos, result.error().hint.c_str());
}

}  // namespace

int main(int count, char** arguments) {
  auto runtime = gantry::must(gantry::Runtime::create());
  auto producer = gantry::must(runtime.producer("core-alone"));
  auto consumer = gantry::must(runtime.consumer("core-alone"));
  const char text[] = "sixty-four bytes are enough";
  gantry::must(producer.send(std::as_bytes(std::span(text))));
  const auto message = gantry::must(consumer.receive());
  expect(message.bytes().size() == sizeof text, "the message has as many bytes as were sent");
  expect(std::memcmp(message.bytes().data(), text, sizeof text) == 0, "and the same bytes");

  expect_refusal(runtime.consumer("core-alone@localhost"), "gantry::net");
  expect_refusal(runtime.producer("core-alone@localhost"), "gantry::net");
  expect_refusal(gantry::make_registrar(gantry::RegistrarKind::uring), "gantry::device");
  expect_refusal(gantry::make_registrar(gantry::RegistrarKind::fabric), "gantry::net");
  expect_refusal(runtime.open_device("cpu"), "gantry::device");
  const auto devices = runtime.devices();
  expect(devices.size() == 1 && !devices[0].usable, "the core does not list devices");
  const auto dsa = runtime.engine("dsa");
  expect(!dsa && dsa.error().code == gantry::Code::not_found, "the core has no engine dsa");
  expect(!dsa && dsa.error().hint.find("link gantry::device") != std::string::npos,
         "its error names the component that has it");
  for (const auto& engine : runtime.engines())
    expect(engine.name != "dsa", "dsa is not of the core");
  if (count > 1) {
    void* const net = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    expect(net != nullptr, "the component net can be loaded late");
    for (const char* when : {"once the component net is loaded", "after dlclose()"}) {
      const auto refused = runtime.producer("core-alone@localhost");  // for want of a token
      expect(!refused && refused.error().code != gantry::Code::unsupported, when);
      if (net != nullptr && when[0] == 'o') dlclose(net);
    }
  }
  return failures == 0 ? 0 : 1;
}
