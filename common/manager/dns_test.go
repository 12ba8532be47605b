package manager

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
)

func TestClusterDomain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ resolvConf, want string }{
		"as the kubelet writes it": {
			resolvConf: "search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n",
			want:       "cluster.local",
		},
		"another domain": {
			resolvConf: "nameserver 10.96.0.10\nsearch ns.svc.k8s.example.org svc.k8s.example.org k8s.example.org example.org\n",
			want:       "k8s.example.org",
		},
		"a domain that is written with its dot": {
			resolvConf: "search ns.svc.example.org. svc.example.org. example.org.\n",
			want:       "example.org",
		},
		"a namespace called svc": {
			resolvConf: "search svc.svc.example.org svc.example.org example.org\n",
			want:       "example.org",
		},
		"tabs and blanks": {
			resolvConf: "\n  search\tns.svc.example.org   svc.example.org\n",
			want:       "example.org",
		},
		"a pod of the host's network": {resolvConf: "search example.org\n", want: "cluster.local"},
		"a comment":                   {resolvConf: "# search svc.example.org\n", want: "cluster.local"},
		"an empty file":               {want: "cluster.local"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "resolv.conf")
			if err := os.WriteFile(file, []byte(tc.resolvConf), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := clusterDomain(file); got != tc.want {
				t.Errorf("the domain is %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		t.Parallel()
		if got := clusterDomain(filepath.Join(t.TempDir(), "resolv.conf")); got != "cluster.local" {
			t.Errorf("the domain is %q, want cluster.local", got)
		}
	})
}

func TestWaitForHosts(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	for name, tc := range map[string]struct {
		hosts []string
		// resolves is when each name does.
		resolves    map[string]time.Duration
		stopAfter   time.Duration
		wantElapsed time.Duration
		wantLookups []string
	}{
		"a name that resolves is not waited for": {
			hosts: []string{"leader.ns"}, wantLookups: []string{"leader.ns."},
		},
		"a name that resolves later is": {
			hosts: []string{"leader.ns"}, resolves: map[string]time.Duration{"leader.ns.": 1500 * time.Millisecond},
			wantElapsed: 2 * time.Second, wantLookups: []string{"leader.ns.", "leader.ns.", "leader.ns."},
		},
		"all names are waited for, whichever resolves first": {
			hosts:       []string{"a.ns", "b.ns", "c.ns"},
			resolves:    map[string]time.Duration{"a.ns.": time.Second, "c.ns.": 2 * time.Second},
			wantElapsed: 2 * time.Second, wantLookups: []string{"a.ns.", "a.ns.", "b.ns.", "c.ns.", "c.ns."},
		},
		"a name that never resolves is given up on, and there is no time for others": {
			hosts: []string{"a.ns", "b.ns"}, resolves: map[string]time.Duration{"a.ns.": never},
			wantElapsed: 3500 * time.Millisecond, wantLookups: []string{"a.ns.", "a.ns.", "a.ns.", "a.ns."},
		},
		"a name may have its dot already": {
			hosts: []string{"leader.ns."}, wantLookups: []string{"leader.ns."},
		},
		"a signal ends it": {
			hosts: []string{"leader.ns"}, resolves: map[string]time.Duration{"leader.ns.": never},
			stopAfter:   1500 * time.Millisecond,
			wantElapsed: 1500 * time.Millisecond, wantLookups: []string{"leader.ns.", "leader.ns."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Time in the bubble is not the clock's: nothing really waits.
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.stopAfter > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.stopAfter)
					defer cancel()
				}
				var lookups []string
				start := time.Now()
				look := func(_ context.Context, host string) ([]string, error) {
					lookups = append(lookups, host)
					if time.Since(start) < tc.resolves[host] {
						return nil, errors.New("no such host")
					}
					return []string{"10.0.0.1"}, nil
				}
				waitForHosts(ctx, logr.Discard(), look, tc.hosts, time.Second, 3500*time.Millisecond)
				if elapsed := time.Since(start); elapsed != tc.wantElapsed {
					t.Errorf("it took %s, want %s", elapsed, tc.wantElapsed)
				}
				if diff := cmp.Diff(tc.wantLookups, lookups); diff != "" {
					t.Errorf("unexpected look-ups (-want +got):\n%s", diff)
				}
			})
		})
	}
}
