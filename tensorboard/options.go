package tensorboard

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/common/network"
)

// Options are the settings of the controller. The fields up to Workers have flags. The other fields do not.
type Options struct {
	// Image is the image of TensorBoards whose spec has no image.
	Image string
	// Requests and Limits are the resources of the TensorBoard container if the spec has no resources.
	Requests, Limits corev1.ResourceList
	// SidecarRequests and SidecarLimits are the resources of the sidecar.
	SidecarRequests, SidecarLimits corev1.ResourceList
	// User is the user ID and the group ID of the processes of TensorBoards. If it is negative, the pods set no user and
	// no group.
	User int64
	// URLTemplate is the template of the URL of a TensorBoard behind a gateway, with the fields .Name and .Namespace. If
	// empty, the URL is the address of the Service.
	URLTemplate string
	// IdleAfter is the time without requests after which a TensorBoard is idle.
	IdleAfter time.Duration
	// SuspendAfterIdle is the time after which an idle TensorBoard is suspended. 0 means never.
	SuspendAfterIdle time.Duration
	// ProbeInterval is the time between two probes of a running TensorBoard.
	ProbeInterval time.Duration
	// NetworkPolicies are the settings of the NetworkPolicies of TensorBoards.
	NetworkPolicies network.Policies
	// Workers is how many TensorBoards are reconciled concurrently.
	Workers int

	// ClusterDomain is the DNS domain of the cluster, for example cluster.local.
	ClusterDomain string
	// Namespace is the namespace of this controller. NetworkPolicies allow the controller to reach the sidecars.
	Namespace string
	// SidecarImage is the image of the sidecars, which is the image of this controller.
	SidecarImage string
	// Clock is the source of the current time.
	Clock clock.PassiveClock
}

// DefaultOptions returns the default values of the flags. All containers have requests and limits of CPU and memory,
// because a ResourceQuota can require each of them.
func DefaultOptions() Options {
	return Options{
		Image:            "tensorstack/tensorboard:2.21.0",
		Requests:         resources("100m", "512Mi"),
		Limits:           resources("1", "2Gi"),
		SidecarRequests:  resources("10m", "32Mi"),
		SidecarLimits:    resources("500m", "256Mi"),
		User:             65532,
		IdleAfter:        time.Hour,
		SuspendAfterIdle: 24 * time.Hour,
		ProbeInterval:    time.Minute,
		Workers:          16,
		Clock:            clock.RealClock{},
	}
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}

func (o *Options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Image, "tensorboard-image", o.Image, "image of TensorBoards whose spec has no image")
	manager.AddResourceFlag(flags, &o.Requests, "tensorboard-requests",
		"resource requests of TensorBoards whose spec has no resources")
	manager.AddResourceFlag(flags, &o.Limits, "tensorboard-limits",
		"resource limits of TensorBoards whose spec has no resources")
	manager.AddResourceFlag(flags, &o.SidecarRequests, "sidecar-requests",
		"resource requests of the sidecar in the pods of TensorBoards")
	manager.AddResourceFlag(flags, &o.SidecarLimits, "sidecar-limits",
		"resource limits of the sidecar in the pods of TensorBoards")
	flags.Int64Var(&o.User, "tensorboard-user", o.User,
		"user ID and group ID of the processes of TensorBoards; -1 sets none, so that the namespace can choose them, as in "+
			"OpenShift, or the image, whose user must not be root")
	flags.StringVar(
		&o.URLTemplate,
		"url-template",
		o.URLTemplate,
		"template of the URL of TensorBoards behind a gateway that you run, for example "+
			"https://tb.example.com/{{.Namespace}}/{{.Name}}/. TensorBoard serves below the path of the URL "+
			"(default: the address of the Service)",
	)
	flags.DurationVar(&o.IdleAfter, "idle-after", o.IdleAfter,
		"time without requests after which a TensorBoard is idle")
	flags.DurationVar(&o.SuspendAfterIdle, "suspend-after-idle", o.SuspendAfterIdle,
		"time after which an idle TensorBoard is suspended; 0 means never")
	flags.DurationVar(&o.ProbeInterval, "probe-interval", o.ProbeInterval,
		"interval at which a running TensorBoard is asked for the time of its last request")
	flags.IntVar(&o.Workers, "workers", o.Workers, "number of TensorBoards that are reconciled concurrently")
	o.NetworkPolicies.AddFlags(flags, "TensorBoard", "the pods of its namespace, this controller")
}

// validate returns an error that names all invalid flags.
func (o *Options) validate() error {
	var errs []error
	if _, err := o.url("name", "namespace"); err != nil {
		errs = append(errs, fmt.Errorf("--url-template: %w", err))
	}
	if o.User == 0 {
		errs = append(errs, errors.New("--tensorboard-user: the user must not be root"))
	}
	if o.IdleAfter <= 0 || o.ProbeInterval <= 0 || o.SuspendAfterIdle < 0 {
		errs = append(errs,
			errors.New("--idle-after and --probe-interval must be greater than 0, and --suspend-after-idle at least 0"))
	}
	errs = append(errs, checkLimits("tensorboard", o.Requests, o.Limits),
		checkLimits("sidecar", o.SidecarRequests, o.SidecarLimits), o.NetworkPolicies.Validate())
	if o.NetworkPolicies.Enabled && o.Namespace == "" {
		errs = append(errs, errors.New("--network-policies: set $POD_NAMESPACE to the namespace of this controller, "+
			"so that the NetworkPolicies let it reach the sidecars"))
	}
	return errors.Join(errs...)
}

// checkLimits returns an error if a resource request is above its limit, because the API server would reject all pods
// with such a container. The parameter name is NAME in the names of the flags: --NAME-requests and --NAME-limits.
func checkLimits(name string, requests, limits corev1.ResourceList) error {
	for _, of := range slices.Sorted(maps.Keys(requests)) {
		request := requests[of]
		if limit, isLimited := limits[of]; isLimited && request.Cmp(limit) > 0 {
			return fmt.Errorf("--%s-requests: the request of %s is %s, and its limit is %s: raise the limit by --%s-limits",
				name, of, request.String(), limit.String(), name)
		}
	}
	return nil
}

// url returns the URL of a TensorBoard. The path of the URL ends with a slash.
func (o *Options) url(namespace, name string) (*url.URL, error) {
	if o.URLTemplate == "" {
		return &url.URL{Scheme: "http", Host: objectName(name) + "." + namespace + ".svc." + o.ClusterDomain, Path: "/"}, nil
	}
	parsed, err := template.New("url").Option("missingkey=error").Parse(o.URLTemplate)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, struct{ Namespace, Name string }{namespace, name}); err != nil {
		return nil, err
	}
	address, err := url.Parse(text.String())
	if err != nil {
		return nil, err
	}
	if address.Host == "" || address.Scheme != "http" && address.Scheme != "https" || address.RawQuery != "" ||
		address.Fragment != "" {
		return nil, fmt.Errorf("%q must look like http://<host>/<path> or https://<host>/<path>, without a query or fragment",
			text.String())
	}
	address.Path = strings.TrimSuffix(address.Path, "/") + "/"
	return address, nil
}
