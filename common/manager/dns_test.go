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

func TestWaitForHost(t *testing.T) {
	t.Parallel()
	const never = 1 << 30
	for name, tc := range map[string]struct {
		host string
		// resolves is the look-up that succeeds.
		resolves    int
		stopAfter   time.Duration
		wantElapsed time.Duration
		wantLookups int
	}{
		"a name that resolves is not waited for":    {host: "leader.ns", resolves: 1, wantLookups: 1},
		"a name that resolves later is":             {host: "leader.ns", resolves: 4, wantElapsed: 3 * time.Second, wantLookups: 4},
		"a name that never resolves is given up on": {host: "leader.ns", resolves: never, wantElapsed: 10 * time.Second, wantLookups: 10},
		"a name may have its dot already":           {host: "leader.ns.", resolves: 1, wantLookups: 1},
		"a signal ends it":                          {host: "leader.ns", resolves: never, stopAfter: 2500 * time.Millisecond, wantElapsed: 2500 * time.Millisecond, wantLookups: 3},
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
				var names []string
				look := func(_ context.Context, host string) ([]string, error) {
					names = append(names, host)
					if len(names) < tc.resolves {
						return nil, errors.New("no such host")
					}
					return []string{"10.0.0.1"}, nil
				}
				start := time.Now()
				waitForHost(ctx, logr.Discard(), look, tc.host, time.Second, 10*time.Second-time.Millisecond)
				if elapsed := time.Since(start).Round(time.Second / 10); elapsed != tc.wantElapsed {
					t.Errorf("it took %s, want %s", elapsed, tc.wantElapsed)
				}
				var want []string
				for range tc.wantLookups {
					want = append(want, "leader.ns.")
				}
				if diff := cmp.Diff(want, names); diff != "" {
					t.Errorf("unexpected look-ups (-want +got):\n%s", diff)
				}
			})
		})
	}
}
