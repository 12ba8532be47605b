package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewPeers(t *testing.T) {
	t.Parallel()
	master := Role{Type: "master", Replicas: 1}
	worker := Role{Type: "worker", Replicas: 2}
	none := Role{Type: "ps"}
	for name, tc := range map[string]struct {
		roles []Role
		want  []Member
	}{
		"members are in the order of the roles, and by index within a role": {
			roles: []Role{master, worker},
			want: []Member{
				{Role: master, Index: 0, Rank: 0, Name: "job-master-0"},
				{Role: worker, Index: 0, Rank: 1, Name: "job-worker-0"},
				{Role: worker, Index: 1, Rank: 2, Name: "job-worker-1"},
			},
		},
		"a role without replicas has no ranks": {
			roles: []Role{none, worker},
			want: []Member{
				{Role: worker, Index: 0, Rank: 0, Name: "job-worker-0"},
				{Role: worker, Index: 1, Rank: 1, Name: "job-worker-1"},
			},
		},
		"a job without replicas has no members": {roles: []Role{none}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := NewPeers("ns", "job", "uid", "cluster.local", 2, tc.roles)
			want := Peers{Namespace: "ns", Job: "job", UID: "uid", ClusterDomain: "cluster.local", Attempt: 2, Members: tc.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected peers (-want +got):\n%s", diff)
			}
			if len(tc.want) > 0 {
				if diff := cmp.Diff(tc.want[0], got.Leader()); diff != "" {
					t.Errorf("unexpected leader (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestFQDN(t *testing.T) {
	t.Parallel()
	peers := NewPeers("ns", "job", "uid", "example.org", 0, []Role{{Type: "worker", Replicas: 12}})
	if got, want := peers.FQDN(peers.Members[11]), "job-worker-11.job.ns.svc.example.org"; got != want {
		t.Errorf("the domain name is %s, want %s", got, want)
	}
}
