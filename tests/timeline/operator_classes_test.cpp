// Prints "<number of the class> <1 if listed>" for each operator name on standard input.
#include "timeline/operator_classes.h"

#include <iostream>
#include <string>

int main() {
  namespace timeline = torch_trainium::timeline;
  for (std::string name; std::getline(std::cin, name);) {
    std::cout << int(timeline::cost_class_of(name)) << ' ' << timeline::is_listed(name) << '\n';
  }
}
