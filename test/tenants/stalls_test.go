package tenants

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

var _ = Describe("The job of a tenant", Label("time"), func() {
	forEachJob("is not delayed if another tenant hides pods during their deletion:", func(ctx context.Context, s service) {
		c := runController(ctx, s)
		c.works(ctx, s, "before")
		const replicas = 100
		for round := range 3 {
			job := s.job(fmt.Sprintf("hidden-%d", round), replicas, plain())
			Expect(create(ctx, c.attacker, attacker, job)).To(Succeed())
			pods := metadataOf("Pod")
			Eventually(ctx, func() (int, error) {
				err := c.attacker.List(ctx, pods, client.InNamespace(attacker),
					client.MatchingLabels{batchv1beta1.LabelJobKind: s.kind.Kind, batchv1beta1.LabelJobName: job.GetName()})
				return len(pods.Items), c.unless(err)
			}).Should(Equal(replicas))

			By("removing the labels while the controller deletes the pods")
			pause := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"runMode":{"pause":{"enabled":true}}}}`))
			Expect(c.attacker.Patch(ctx, job, pause)).To(Succeed())
			hide := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))
			c.inParallel(replicas, func(i int) error {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: attacker, Name: pods.Items[i].Name}}
				if err := c.attacker.Patch(ctx, pod, hide); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
				return nil
			})
		}
		c.works(ctx, s, "after")
		c.expectUnharmed()
	})

	It("is not delayed by a slow webhook for one job of another tenant", Label("pytorch"), func(ctx context.Context) {
		c, webhook := worksBesideSlowWebhook(ctx, pytorch)
		Expect(webhook.givenUp.Load()).To(BeZero(), "the victim's job waited for a write of the attacker's job")
		c.expectUnharmed()
	})

	It("would be delayed by a slow webhook if a list waited for the writes of all jobs", Label("pytorch"),
		func(ctx context.Context) {
			_, webhook := worksBesideSlowWebhook(ctx, pytorch.with("a list waits for the writes of all jobs"))
			Expect(webhook.givenUp.Load()).NotTo(BeZero(), "the victim's job did not wait for a write of the attacker's job")
		})

	It("is not delayed by a slow webhook for many jobs of another tenant", Label("pytorch"), func(ctx context.Context) {
		s := pytorch
		c := runController(ctx, s)
		c.works(ctx, s, "before")
		webhook := c.slowWebhook(ctx, 10)
		const jobs = 200
		c.inParallel(jobs, func(i int) error { return create(ctx, c.attacker, attacker, s.job(name(i), 1, plain())) })
		Eventually(ctx, webhook.asked.Load).Should(BeNumerically(">=", 1))
		c.works(ctx, s, "after")
		Expect(webhook.givenUp.Load()).To(BeNumerically("<", jobs/2),
			"the victim's job waited for the writes of most of the attacker's jobs")
		c.expectUnharmed()
	})
})

// worksBesideSlowWebhook checks that the controller works for the victim while a webhook delays a pod of the attacker.
func worksBesideSlowWebhook(ctx context.Context, s service) (*cluster, *webhook) {
	GinkgoHelper()
	c := runController(ctx, s)
	c.works(ctx, s, "before")
	webhook := c.slowWebhook(ctx, 30)
	Expect(create(ctx, c.attacker, attacker, s.job("slow", 1, plain()))).To(Succeed())
	Eventually(ctx, webhook.asked.Load).Should(BeNumerically(">=", 1))
	c.works(ctx, s, "after")
	return c, webhook
}

// webhook is an admission webhook that does not answer.
type webhook struct {
	// asked counts the requests of the API server. givenUp counts the requests that timed out.
	asked, givenUp atomic.Int32
}

// slowWebhook installs a webhook that delays the creation of each pod of the attacker until the request to the
// webhook times out. Only an administrator can install webhooks, but the attacker can exploit this one.
func (c *cluster) slowWebhook(ctx context.Context, seconds int32) *webhook {
	GinkgoHelper()
	slow := &webhook{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		slow.asked.Add(1)
		_, _ = io.Copy(io.Discard, request.Body) // otherwise the server does not notice that the client is gone
		<-request.Context().Done()
		slow.givenUp.Add(1)
	}))
	DeferCleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	Expect(c.Client.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slow"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "slow.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: certificate},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: attacker}},
			FailurePolicy:           new(admissionregistrationv1.Ignore),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          &seconds,
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
				},
			}},
		}},
	})).To(Succeed())
	Eventually(ctx, func() int32 { // the API server does not use a new webhook immediately
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: plain().Spec}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = create(short, client.NewDryRunClient(c.attacker), attacker, probe)
		return slow.asked.Load()
	}).Should(BeNumerically(">=", 1))
	Eventually(ctx, slow.givenUp.Load).Should(Equal(slow.asked.Load()))
	slow.asked.Store(0)
	slow.givenUp.Store(0)
	return slow
}
