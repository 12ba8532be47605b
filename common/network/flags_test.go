package network_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/network"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    []string
		want    network.Policies
		wantErr string
	}{
		"NetworkPolicies are disabled by default": {},
		"--network-policies enables NetworkPolicies": {
			args: []string{"--network-policies"}, want: network.Policies{Enabled: true},
		},
		"an empty selector allows no namespaces": {
			args: []string{"--network-policies", "--network-policy-allow-namespaces="}, want: network.Policies{Enabled: true},
		},
		"a selector can name one namespace": {
			args: []string{"--network-policies", "--network-policy-allow-namespaces=kubernetes.io/metadata.name=monitoring"},
			want: network.Policies{Enabled: true, AllowedNamespaces: &metav1.LabelSelector{
				MatchLabels: map[string]string{"kubernetes.io/metadata.name": "monitoring"},
			}},
		},
		"a selector can name several namespaces": {
			args: []string{
				"--network-policies", "--network-policy-allow-namespaces=kubernetes.io/metadata.name in (monitoring, gateway)",
			},
			want: network.Policies{Enabled: true, AllowedNamespaces: &metav1.LabelSelector{
				MatchLabels: map[string]string{},
				MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: "kubernetes.io/metadata.name", Operator: "In", Values: []string{"gateway", "monitoring"},
				}},
			}},
		},
		"an invalid selector is an error": {
			args:    []string{"--network-policies", "--network-policy-allow-namespaces=a=b=c"},
			wantErr: `"--network-policy-allow-namespaces" flag: couldn't parse the selector string "a=b=c"`,
		},
		"allowed namespaces without NetworkPolicies are an error": {
			args:    []string{"--network-policy-allow-namespaces=a=b"},
			wantErr: "--network-policy-allow-namespaces has no effect without --network-policies: set both, or neither",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got network.Policies
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			got.AddFlags(flags, "job", "the replicas of the job")
			err := flags.Parse(tc.args)
			if err == nil {
				err = got.Validate()
			}
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("the error is %v, want %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("unexpected settings (-want +got):\n%s%v", diff, err)
			}
		})
	}
}
