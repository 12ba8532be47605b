package tensorboard

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestURL(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ template, want, wantError string }{
		"the default is the address of the Service": {
			want: "http://board-tb.team.svc.cluster.local/",
		},
		"the path can contain the namespace and the name": {
			template: "https://tb.example.com/{{.Namespace}}/{{.Name}}", want: "https://tb.example.com/team/board/",
		},
		"the host can contain the namespace and the name": {
			template: "https://{{.Name}}.{{.Namespace}}.tb.example.com", want: "https://board.team.tb.example.com/",
		},
		"a template with a syntax error is refused":   {template: "https://{{.Name", wantError: "unclosed action"},
		"a template with an unknown field is refused": {template: "https://{{.Cluster}}/", wantError: "Cluster"},
		"a URL without a host is refused": {
			template: "/{{.Name}}/", wantError: "must look like http://<host>/<path>",
		},
		"a URL with a query is refused": {
			template: "http://host/?name={{.Name}}", wantError: "must look like http://<host>/<path>",
		},
		"a URL of another scheme is refused": {
			template: "ftp://host/{{.Name}}", wantError: "must look like http://<host>/<path>",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			options.ClusterDomain, options.URLTemplate = "cluster.local", tc.template
			got, err := options.url("team", "board")
			switch {
			case tc.wantError == "" && (err != nil || got.String() != tc.want):
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			case tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)):
				t.Errorf("got %v, want an error with %q", err, tc.wantError)
			}
		})
	}
}

func TestTheErrorNamesTheInvalidFlag(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*Options)
		want   string
	}{
		"--url-template":     {func(o *Options) { o.URLTemplate = "nowhere" }, "--url-template"},
		"--tensorboard-user": {func(o *Options) { o.User = 0 }, "--tensorboard-user: the user must not be root"},
		"--probe-interval":   {func(o *Options) { o.ProbeInterval = 0 }, "--probe-interval"},
		"--network-policies": {
			func(o *Options) { o.NetworkPolicies.Enabled = true }, "--network-policies: set $POD_NAMESPACE",
		},
		"--network-policy-allow-namespaces": {
			func(o *Options) { o.NetworkPolicies.AllowedNamespaces = &metav1.LabelSelector{} },
			"--network-policy-allow-namespaces",
		},
		"--tensorboard-requests": {
			func(o *Options) { o.Requests = resources("2", "512Mi") },
			"--tensorboard-requests: the request of cpu is 2, and its limit is 1: raise the limit by --tensorboard-limits",
		},
		"--sidecar-requests": {
			func(o *Options) { o.SidecarRequests = resources("10m", "1Gi") }, "--sidecar-requests: the request of memory is 1Gi",
		},
		"--suspend-after-idle": {func(o *Options) { o.SuspendAfterIdle = -time.Second }, "--suspend-after-idle"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			if err := options.validate(); err != nil {
				t.Fatalf("the default values are invalid: %v", err)
			}
			tc.change(&options)
			if err := options.validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}
