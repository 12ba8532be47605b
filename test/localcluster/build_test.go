package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestComponents(t *testing.T) {
	repo, err := FindRepo("")
	if err != nil {
		t.Fatal(err)
	}
	b := &Builder{Repo: repo, Paths: Paths{Cache: "/cache"}}
	for folder, wants := range map[string][]string{
		"kubernetes": {"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"},
		"etcd":       {"etcd"},
		"etcdtools":  {"etcdctl", "etcdutl"},
		"coredns":    {"coredns"},
		"kwok":       {"kwok"},
		"versitygw":  {"versitygw"},
		"kueue":      {"kueue"},
		"volcano":    {"vc-scheduler"},
	} {
		c, err := b.component(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if c.packages[want] == "" {
				t.Errorf("%s has no tool %s: %v", folder, want, c.packages)
			}
		}
		if !strings.HasPrefix(c.out, "/cache/bin/"+folder+"-v") {
			t.Errorf("the folder for %s is %s, which does not contain the version", folder, c.out)
		}
	}
	if _, err := b.component("nonsense"); err == nil {
		t.Error("an unknown component is accepted")
	}
}

// Old binaries must not be used after the pinned version of the project or of a dependency has changed.
func TestCacheKey(t *testing.T) {
	repo := t.TempDir()
	dir := filepath.Join(repo, componentsFolder, "kubernetes-1.34")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := &Builder{Repo: repo, Paths: Paths{Cache: "/cache"}}
	key := func() string {
		t.Helper()
		c, err := b.component("kubernetes-1.34")
		if err != nil {
			t.Fatal(err)
		}
		return c.out
	}
	const mod = "module x\ngo 1.26.0\ntool k8s.io/kubernetes/cmd/kubectl\nrequire k8s.io/kubernetes "
	write("go.mod", mod+"v1.34.4\n")
	write("go.sum", "")
	first := key()
	if !strings.HasPrefix(first, "/cache/bin/kubernetes-v1.34.4-") || first != key() {
		t.Errorf("key %s is not stable or does not contain the version", first)
	}
	write("go.sum", "changed\n")
	second := key()
	write("go.mod", mod+"v1.34.5\n")
	if third := key(); first == second || second == third {
		t.Errorf("a change of a version does not change the key: %s, %s, %s", first, second, third)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.component("kubernetes-1.34"); err == nil {
		t.Error("a go.mod without Kubernetes is accepted")
	}
}

func TestLDFlags(t *testing.T) {
	for _, tc := range []struct{ project, version, want string }{
		{"k8s.io/kubernetes", "v1.37.1", "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.1 " +
			"-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"},
		{"sigs.k8s.io/kwok", "v0.8.0", "-s -w"},
	} {
		if got := ldflags(tc.project, tc.version); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.project, got, tc.want)
		}
	}
}

func TestDefaultPaths(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	for _, tc := range []struct {
		name, own, xdg, want string
	}{
		{"the default is below the home folder", "", "", "/home/u/.cache/tensorstack-jobs"},
		{"XDG_CACHE_HOME replaces the default", "", "/xdg", "/xdg/tensorstack-jobs"},
		{"TENSORSTACK_CACHE has precedence", "/own", "/xdg", "/own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("TENSORSTACK_CACHE", tc.own)
			t.Setenv("XDG_CACHE_HOME", tc.xdg)
			p, err := DefaultPaths()
			if err != nil || p.Cache != tc.want {
				t.Errorf("%q, %v, want %q", p.Cache, err, tc.want)
			}
		})
	}
}
