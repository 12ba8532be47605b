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

// AddFlags adds the flags of the settings. The arguments become parts of the help texts of the flags. The argument
// called is the name of the controller's objects, such as "job". The argument peers describes the peers that the
// NetworkPolicies always allow, such as "the replicas of the job".
func (p *Policies) AddFlags(flags *pflag.FlagSet, called, peers string) {
	flags.BoolVar(&p.Enabled, flagEnabled, p.Enabled, fmt.Sprintf(
		"create a NetworkPolicy for each %[1]s that only allows ingress from %[2]s and namespaces that --%[3]s selects. "+
			"The network plugin must enforce NetworkPolicies, and the controller needs the permissions of its component "+
			"networkpolicies. They have no effect on pods with hostNetwork (default: none)",
		called, peers, flagAllowed))
	flags.Var((*selectorValue)(p), flagAllowed, fmt.Sprintf(
		"label `selector` of namespaces that the NetworkPolicies of --%s also allow, "+
			"such as \"kubernetes.io/metadata.name in (monitoring, gateway)\" (default: none)", flagEnabled))
}

// Validate returns an error if the flags contradict each other. The error names the flags.
func (p Policies) Validate() error {
	if p.AllowedNamespaces != nil && !p.Enabled {
		return errors.New("--" + flagAllowed + " has no effect without --" + flagEnabled + ": set both, or neither")
	}
	return nil
}

// selectorValue is the value of the flag for allowed namespaces.
type selectorValue Policies

// String implements pflag.Value.
func (v *selectorValue) String() string {
	if v.AllowedNamespaces == nil {
		return ""
	}
	return metav1.FormatLabelSelector(v.AllowedNamespaces)
}

// Set implements pflag.Value. An empty text selects no namespaces, although an empty label selector selects all.
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
