package network

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names of the flags.
const (
	flagEnabled = "network-policies"
	flagAllowed = "network-policy-allow-namespaces"
)

// AddFlags adds the flags of the settings. They are for controllers of objects that are called so, such as "job", whose
// NetworkPolicies let in what the text says.
func (p *Policies) AddFlags(flags *pflag.FlagSet, called, letsIn string) {
	flags.BoolVar(&p.Enabled, flagEnabled, p.Enabled, fmt.Sprintf(
		"make a NetworkPolicy for each %[1]s, which lets in nothing but %[2]s and what --%[3]s selects. "+
			"The network of the cluster must enforce NetworkPolicies, and they bind no pod with hostNetwork. "+
			"The controller needs the rights of its component networkpolicies (default: it makes none)",
		called, letsIn, flagAllowed))
	flags.Var((*selectorValue)(p), flagAllowed, fmt.Sprintf(
		"label `selector` of namespaces whose pods the NetworkPolicies of --%s let in, too, such as those of a monitoring "+
			"system or a gateway: \"kubernetes.io/metadata.name in (monitoring, gateway)\" (default: none)", flagEnabled))
}

// Validate returns an error that names the flags that make no sense together.
func (p Policies) Validate() error {
	if p.AllowedNamespaces != nil && !p.Enabled {
		return errors.New("--" + flagAllowed + " has no effect without --" + flagEnabled + ": set both, or neither")
	}
	return nil
}

// selectorValue is the value of the flag that selects namespaces.
type selectorValue Policies

// String implements pflag.Value.
func (v *selectorValue) String() string {
	if v.AllowedNamespaces == nil {
		return ""
	}
	return metav1.FormatLabelSelector(v.AllowedNamespaces)
}

// Set implements pflag.Value. An empty text selects no namespace: as a selector it would select all.
func (v *selectorValue) Set(text string) error {
	v.AllowedNamespaces = nil
	if strings.TrimSpace(text) == "" {
		return nil
	}
	selector, err := metav1.ParseToLabelSelector(text)
	if err == nil {
		v.AllowedNamespaces = selector
	}
	return err
}

// Type implements pflag.Value.
func (v *selectorValue) Type() string { return "selector" }
