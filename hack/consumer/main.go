// The consumer is an example of a user's program that gets the modules from a module proxy. It prints every kind of
// the APIs.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

func main() {
	scheme := runtime.NewScheme()
	for _, add := range schemes {
		if err := add(scheme); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
	}
	var kinds []string
	for kind := range scheme.AllKnownTypes() {
		// Each kind of this repository has a list kind. The other types, which Kubernetes adds to every group and version,
		// have none.
		if single, isList := strings.CutSuffix(kind.Kind, "List"); isList &&
			strings.HasSuffix(kind.Group, "tensorstack.dev") {
			kinds = append(kinds, kind.GroupVersion().WithKind(single).String())
		}
	}
	slices.Sort(kinds)
	fmt.Println(strings.Join(kinds, "\n"))
	if len(kinds) < len(schemes) {
		fmt.Fprintf(os.Stderr, "Error: %d modules have only %d kinds\n", len(schemes), len(kinds))
		os.Exit(1)
	}
}
