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

// Options are the settings of the controller, each with a flag of its own but for the last ones.
type Options struct {
	// Image that runs TensorBoard where the spec names none.
	Image string
	// Requests and Limits of the TensorBoard container where the spec has no resources.
	Requests, Limits map[string]string
	// URLTemplate makes the URL of a TensorBoard from its .Name and .Namespace, where it is reached through a gateway;
	// empty is the address of its Service.
	URLTemplate string
	// IdleAfter is how long nobody may have sent a request until the TensorBoard is idle.
	IdleAfter time.Duration
	// SuspendAfterIdle is how long it may be idle until it is suspended; 0 is for ever.
	SuspendAfterIdle time.Duration
	// ProbeInterval is the time between two looks at a TensorBoard that runs.
	ProbeInterval time.Duration
	// NetworkPolicies are the settings of the NetworkPolicies of TensorBoards.
	NetworkPolicies network.Policies
	// Workers is how many TensorBoards are reconciled at the same time.
	Workers int

	// ClusterDomain is the DNS domain of the cluster, such as cluster.local.
	ClusterDomain string
	// Namespace that this controller runs in, from where it asks the sidecars.
	Namespace string
	// SidecarImage is the image of this controller.
	SidecarImage string
	// Clock tells the time.
	Clock clock.PassiveClock
}

// DefaultOptions returns the defaults of the flags.
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
	flags.StringVar(&o.Image, "tensorboard-image", o.Image, "image that runs the TensorBoards that name none")
	flags.StringToStringVar(&o.Requests, "tensorboard-requests", o.Requests,
		"resource requests of the TensorBoards that name no resources")
	flags.StringToStringVar(&o.Limits, "tensorboard-limits", o.Limits,
		"resource limits of the TensorBoards that name no resources")
	flags.StringVar(
		&o.URLTemplate,
		"url-template",
		o.URLTemplate,
		"how a gateway that you run makes TensorBoards reachable, such as https://tb.example.com/{{.Namespace}}/{{.Name}}/. TensorBoard serves below the path of the URL (default: the address of the Service)",
	)
	flags.DurationVar(&o.IdleAfter, "idle-after", o.IdleAfter, "time without a request after which a TensorBoard is idle")
	flags.DurationVar(&o.SuspendAfterIdle, "suspend-after-idle", o.SuspendAfterIdle,
		"time after which an idle TensorBoard is suspended; 0 is never")
	flags.DurationVar(&o.ProbeInterval, "probe-interval", o.ProbeInterval,
		"time between two questions to a TensorBoard when its last request was")
	flags.IntVar(&o.Workers, "workers", o.Workers, "TensorBoards that are reconciled at the same time")
	o.NetworkPolicies.AddFlags(flags, "TensorBoard", "the pods of its namespace, this controller")
}

// validate returns an error that names the flags that make no sense.
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
			errors.New("--idle-after and --probe-interval must be greater than 0, and --suspend-after-idle not less"))
	}
	if err := o.NetworkPolicies.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.NetworkPolicies.Enabled && o.Namespace == "" {
		errs = append(errs, errors.New("--network-policies: set $POD_NAMESPACE to the namespace of this controller, "+
			"which must reach the sidecars of TensorBoards"))
	}
	return errors.Join(errs...)
}

// url returns where a TensorBoard is served. The path of the URL ends with a slash.
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
		return nil, fmt.Errorf("%q is not like http://<host>/<path>", text.String())
	}
	address.Path = strings.TrimSuffix(address.Path, "/") + "/"
	return address, nil
}

// resources returns those of the TensorBoards that name none.
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
