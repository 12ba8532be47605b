package tensorboard

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"tensorstack.dev/jobs/common/network"
)

// Options are the settings of the controller. The fields up to Workers have flags. The other fields do not.
type Options struct {
	// Image is the image of TensorBoards whose spec has no image.
	Image string
	// Requests and Limits are the resources of the TensorBoard container if the spec has no resources.
	Requests, Limits map[string]string
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
	// Namespace is the namespace of this controller. NetworkPolicies allow it to reach the sidecars.
	Namespace string
	// SidecarImage is the image of the sidecars, which is the image of this controller.
	SidecarImage string
	// Clock is the source of the current time.
	Clock clock.PassiveClock
}

// DefaultOptions returns the default values of the flags.
func DefaultOptions() Options {
	return Options{
		Image:            "tensorstack/tensorboard:2.21.0",
		Requests:         map[string]string{"cpu": "100m", "memory": "512Mi"},
		Limits:           map[string]string{"memory": "2Gi"},
		IdleAfter:        time.Hour,
		SuspendAfterIdle: 24 * time.Hour,
		ProbeInterval:    time.Minute,
		Workers:          16,
		Clock:            clock.RealClock{},
	}
}

func (o *Options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Image, "tensorboard-image", o.Image, "image of TensorBoards whose spec has no image")
	flags.StringToStringVar(&o.Requests, "tensorboard-requests", o.Requests,
		"resource requests of TensorBoards whose spec has no resources")
	flags.StringToStringVar(&o.Limits, "tensorboard-limits", o.Limits,
		"resource limits of TensorBoards whose spec has no resources")
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
	if _, err := o.resources(); err != nil {
		errs = append(errs, err)
	}
	if o.IdleAfter <= 0 || o.ProbeInterval <= 0 || o.SuspendAfterIdle < 0 {
		errs = append(errs,
			errors.New("--idle-after and --probe-interval must be greater than 0, and --suspend-after-idle at least 0"))
	}
	if err := o.NetworkPolicies.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.NetworkPolicies.Enabled && o.Namespace == "" {
		errs = append(errs, errors.New("--network-policies: set $POD_NAMESPACE to the namespace of this controller, "+
			"so that the NetworkPolicies let it reach the sidecars"))
	}
	return errors.Join(errs...)
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

// resources returns the resources of TensorBoards whose spec has none.
func (o *Options) resources() (corev1.ResourceRequirements, error) {
	requests, err := quantities("--tensorboard-requests", o.Requests)
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	limits, err := quantities("--tensorboard-limits", o.Limits)
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}, err
}

func quantities(name string, values map[string]string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for key, value := range values {
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %s=%s: %w", name, key, value, err)
		}
		list[corev1.ResourceName(key)] = quantity
	}
	return list, nil
}
