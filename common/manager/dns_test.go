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
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
)

func TestClusterDomain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ resolvConf, want string }{
		"the file of the kubelet contains the domain": {
			resolvConf: "search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n",
			want:       "cluster.local",
		},
		"the domain can be any domain": {
			resolvConf: "nameserver 10.96.0.10\nsearch ns.svc.k8s.example.org svc.k8s.example.org k8s.example.org example.org\n",
			want:       "k8s.example.org",
		},
		"a trailing dot is removed": {
			resolvConf: "search ns.svc.example.org. svc.example.org. example.org.\n",
			want:       "example.org",
		},
		"in a namespace named svc, the shorter domain is right": {
			resolvConf: "search svc.svc.example.org svc.example.org example.org\n",
			want:       "example.org",
		},
		"fields can be separated by tabs and blanks": {
			resolvConf: "\n  search\tns.svc.example.org   svc.example.org\n",
			want:       "example.org",
		},
		"a pod with hostNetwork gets the default": {resolvConf: "search example.org\n", want: "cluster.local"},
		"a comment is ignored":                    {resolvConf: "# search svc.example.org\n", want: "cluster.local"},
		"an empty file results in the default":    {want: "cluster.local"},
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
	t.Run("a missing file results in the default", func(t *testing.T) {
		t.Parallel()
		if got := clusterDomain(filepath.Join(t.TempDir(), "resolv.conf")); got != "cluster.local" {
			t.Errorf("the domain is %q, want cluster.local", got)
		}
	})
}

func TestWaitDNSInstallsBeforeItWaits(t *testing.T) {
	t.Parallel()
	errFull := errors.New("no space left on device")
	for name, tc := range map[string]struct {
		args    []string
		fails   error
		want    []string
		wantErr error
	}{
		"nothing is installed without the flag": {
			args: []string{"--timeout=1ns", "leader.invalid"}, want: []string{"waits"},
		},
		"nothing is awaited without hosts": {
			args: []string{"--install=/t9k/folder"}, want: []string{"installs into /t9k/folder"},
		},
		"the wait begins after the installation": {
			args: []string{"--install=/t9k/folder", "--timeout=1ns", "leader.invalid"},
			want: []string{"installs into /t9k/folder", "waits"},
		},
		"nothing is awaited if the installation fails": {
			args: []string{"--install=/t9k/folder", "--timeout=1ns", "leader.invalid"}, fails: errFull,
			want: []string{"installs into /t9k/folder"}, wantErr: errFull,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			logger := funcr.New(func(string, string) { got = append(got, "waits") }, funcr.Options{})
			cmd := waitDNSCommand(logger, func(folder string) error {
				got = append(got, "installs into "+folder)
				return tc.fails
			})
			cmd.SetArgs(tc.args)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, tc.wantErr) {
				t.Errorf("got error %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected steps (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the flag does not exist if there is nothing to install", func(t *testing.T) {
		t.Parallel()
		if flag := waitDNSCommand(logr.Discard(), nil).Flags().Lookup("install"); flag != nil {
			t.Errorf("got the flag %s, want none", flag.Name)
		}
	})
}

func TestWaitForHosts(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	for name, tc := range map[string]struct {
		hosts []string
		// resolves maps each name to the time after which it resolves.
		resolves    map[string]time.Duration
		stopAfter   time.Duration
		wantElapsed time.Duration
		wantLookups []string
	}{
		"a name that resolves immediately is looked up once": {
			hosts: []string{"leader.ns"}, wantLookups: []string{"leader.ns."},
		},
		"a name is looked up until it resolves": {
			hosts: []string{"leader.ns"}, resolves: map[string]time.Duration{"leader.ns.": 1500 * time.Millisecond},
			wantElapsed: 2 * time.Second, wantLookups: []string{"leader.ns.", "leader.ns.", "leader.ns."},
		},
		"all names are awaited, whichever resolves first": {
			hosts:       []string{"a.ns", "b.ns", "c.ns"},
			resolves:    map[string]time.Duration{"a.ns.": time.Second, "c.ns.": 2 * time.Second},
			wantElapsed: 2 * time.Second, wantLookups: []string{"a.ns.", "a.ns.", "b.ns.", "c.ns.", "c.ns."},
		},
		"the timeout applies to all names together": {
			hosts: []string{"a.ns", "b.ns"}, resolves: map[string]time.Duration{"a.ns.": never},
			wantElapsed: 3500 * time.Millisecond, wantLookups: []string{"a.ns.", "a.ns.", "a.ns.", "a.ns."},
		},
		"a name can have a trailing dot": {
			hosts: []string{"leader.ns."}, wantLookups: []string{"leader.ns."},
		},
		"a signal ends the wait": {
			hosts: []string{"leader.ns"}, resolves: map[string]time.Duration{"leader.ns.": never},
			stopAfter:   1500 * time.Millisecond,
			wantElapsed: 1500 * time.Millisecond, wantLookups: []string{"leader.ns.", "leader.ns."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Package synctest simulates the time, so the test does not wait.
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
					t.Errorf("the wait took %s, want %s", elapsed, tc.wantElapsed)
				}
				if diff := cmp.Diff(tc.wantLookups, lookups); diff != "" {
					t.Errorf("unexpected lookups (-want +got):\n%s", diff)
				}
			})
		})
	}
}
