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
	flags.Func(flagAllowed, fmt.Sprintf(
		"label `selector` of namespaces that the NetworkPolicies of --%s also allow, "+
			"such as \"kubernetes.io/metadata.name in (monitoring, gateway)\" (default: none)", flagEnabled),
		func(text string) (err error) {
			p.AllowedNamespaces = nil
			if strings.TrimSpace(text) != "" { // an empty label selector selects all namespaces, but an empty text none
				p.AllowedNamespaces, err = metav1.ParseToLabelSelector(text)
			}
			return err
		})
}

// Validate returns an error if the flags contradict each other. The error names the flags.
func (p Policies) Validate() error {
	if p.AllowedNamespaces != nil && !p.Enabled {
		return errors.New("--" + flagAllowed + " has no effect without --" + flagEnabled + ": set both, or neither")
	}
	return nil
}
