package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// AddResourceFlag adds a flag for quantities of resources, such as cpu=100m,memory=64Mi. At first, the list contains
// the default. The first use of the flag replaces the list, and each further use adds to it.
func AddResourceFlag(flags *pflag.FlagSet, list *corev1.ResourceList, name, usage string) {
	flags.Var(&resourceValue{list: list}, name, usage)
}

// resourceValue is the value of a flag with quantities of resources. It implements pflag.Value.
type resourceValue struct {
	list *corev1.ResourceList
	// isSet reports whether the flag was used, so that the list no longer contains the default.
	isSet bool
}

// Set implements pflag.Value.
func (v *resourceValue) Set(text string) error {
	list := corev1.ResourceList{}
	if v.isSet {
		maps.Copy(list, *v.list)
	}
	for pair := range strings.SplitSeq(text, ",") {
		if text == "" {
			break // no resources
		}
		name, value, isPair := strings.Cut(pair, "=")
		if !isPair {
			return fmt.Errorf("%q must be <resource>=<quantity>, such as cpu=100m", pair)
		}
		quantity, err := resource.ParseQuantity(value)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", pair, err)
		case quantity.Sign() < 0:
			return fmt.Errorf("%s: a quantity must not be negative", pair)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	*v.list, v.isSet = list, true
	return nil
}

// String implements pflag.Value. The resources are in the order of their names.
func (v *resourceValue) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(*v.list)) {
		quantity := (*v.list)[name]
		pairs = append(pairs, fmt.Sprintf("%s=%s", name, quantity.String()))
	}
	return strings.Join(pairs, ",")
}

// Type implements pflag.Value.
func (*resourceValue) Type() string { return "resources" }
