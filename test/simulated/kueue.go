package simulated

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// kueueNamespace is the namespace of the Secrets and Leases of Kueue.
const kueueNamespace = "kueue-system"

// kueueConfig is the configuration of Kueue. The last %s is the part from Options.Kueue.
const kueueConfig = `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "%s"}
metrics: {bindAddress: "0"}
webhook: {host: "%s", port: %d, certDir: "%s"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
clientConnection: {qps: 300, burst: 500}
%s`

// InstallKueue installs Kueue and returns when it is ready. The configuration has the same form as Options.Kueue.
func (c *ControlPlane) InstallKueue(ctx context.Context, configuration string) error {
	if err := c.InstallKueueCRDs(); err != nil {
		return err
	}
	webhooks, err := c.kueueWebhooks()
	if err != nil {
		return err
	}
	if err := webhooks.Install(c.Config); err != nil {
		return err
	}
	return c.runKueue(ctx, configuration, webhooks)
}

// InstallKueueCRDs creates the CRDs of Kueue, and returns when the API server serves them.
func (c *ControlPlane) InstallKueueCRDs() error {
	folder := filepath.Join(c.options.Programs.kueueSource, "config/components/crd/bases")
	_, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: []string{folder}})
	return err
}

// RemoveKueue kills Kueue, and deletes its webhooks and the CRD of Workloads.
func (c *ControlPlane) RemoveKueue(ctx context.Context) error {
	errs := []error{c.Kill(Kueue)}
	for _, object := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "mutating-webhook-configuration"},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "validating-webhook-configuration"},
		},
	} {
		errs = append(errs, c.Client.Delete(ctx, object))
	}
	workloads := &unstructured.Unstructured{}
	workloads.SetAPIVersion("apiextensions.k8s.io/v1")
	workloads.SetKind("CustomResourceDefinition")
	workloads.SetName("workloads.kueue.x-k8s.io")
	return errors.Join(append(errs, c.Client.Delete(ctx, workloads))...)
}

// kueueWebhooks returns the webhooks of Kueue that the tests use (see isUsed). The API server calls them on this
// machine.
func (c *ControlPlane) kueueWebhooks() (*envtest.WebhookInstallOptions, error) {
	webhooks := &envtest.WebhookInstallOptions{}
	content, err := os.ReadFile(filepath.Join(c.options.Programs.kueueSource, "config/components/webhook/manifests.yaml"))
	if err != nil {
		return nil, err
	}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return webhooks, nil
		}
		var mutating admissionregistrationv1.MutatingWebhookConfiguration
		var validating admissionregistrationv1.ValidatingWebhookConfiguration
		if err := errors.Join(err, yaml.Unmarshal(document, &mutating), yaml.Unmarshal(document, &validating)); err != nil {
			return nil, err
		}
		switch mutating.Kind {
		case "MutatingWebhookConfiguration":
			mutating.Webhooks = slices.DeleteFunc(mutating.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
				return !isUsed(w.Rules)
			})
			webhooks.MutatingWebhooks = append(webhooks.MutatingWebhooks, &mutating)
		case "ValidatingWebhookConfiguration":
			validating.Webhooks = slices.DeleteFunc(validating.Webhooks,
				func(w admissionregistrationv1.ValidatingWebhook) bool { return !isUsed(w.Rules) })
			webhooks.ValidatingWebhooks = append(webhooks.ValidatingWebhooks, &validating)
		}
	}
}

// isUsed reports whether the rules of a webhook are for Kueue's own kinds, for Jobs of the API group batch, or for
// pods.
func isUsed(rules []admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		return slices.Contains(rule.APIGroups, "kueue.x-k8s.io") || slices.Contains(rule.Resources, "jobs") &&
			slices.Contains(rule.APIGroups, "batch") || slices.Contains(rule.Resources, "pods")
	})
}

// runKueue starts Kueue and returns when it is ready.
func (c *ControlPlane) runKueue(
	ctx context.Context, configuration string, webhook *envtest.WebhookInstallOptions,
) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kueueNamespace}}
	if err := c.Client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	kubeconfig, err := c.Kubeconfig(Kueue, "kueue", "system:masters")
	if err != nil {
		return err
	}
	health, err := Listen()
	if err != nil {
		return err
	}
	config, err := c.file("kueue.yaml", fmt.Appendf(nil, kueueConfig, health.String(), webhook.LocalServingHost,
		webhook.LocalServingPort, webhook.LocalServingCertDir, configuration))
	if err != nil {
		return err
	}
	// If Kueue does not manage its certificates itself, it also reads a certificate for its metrics from a fixed path
	// below /etc. So Kueue runs in a mount namespace in which the files of this certificate exist.
	etc, work := filepath.Join(c.options.Dir, "kueue-etc"), filepath.Join(c.options.Dir, "kueue-work")
	certs := os.DirFS(webhook.LocalServingCertDir)
	if err := errors.Join(os.Mkdir(work, 0o755), os.CopyFS(filepath.Join(etc, "kueue/metrics/certs"), certs)); err != nil {
		return err
	}
	argv := []string{
		"/usr/bin/unshare", "--mount", "/bin/sh", "-c", kueueScript, "sh", etc, work,
		filepath.Join(c.options.Programs.kueue, Kueue), "--config=" + config, "--kubeconfig=" + kubeconfig,
		"--feature-gates=VisibilityOnDemand=false",
	}
	return c.Run(ctx, Kueue, argv, Probe("http://"+health.String()+"/readyz", ""))
}

// kueueScript adds the files of the folder $1 to /etc with an overlay, whose work folder is $2. Then it runs the
// command in the other arguments.
const kueueScript = `mount -t overlay none -o "lowerdir=/etc,upperdir=$1,workdir=$2" /etc && shift 2 && exec "$@"`
