package train

import (
	"context"
	"net"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

var _ = Describe("A command of kubectl train that cannot use the cluster", func() {
	It("reports that there is no kubeconfig", func(ctx context.Context) {
		file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		_, errOut, err := newNamespace(ctx).train(ctx, "list", "--kubeconfig", file)
		Expect(err).To(MatchError("no cluster is configured, since there is no kubeconfig at " + file +
			": set --kubeconfig or $KUBECONFIG to the file that you got for your cluster"))
		Expect(errOut).To(BeEmpty())
	})

	It("reports that there is no file at $KUBECONFIG", func(ctx context.Context) {
		file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		GinkgoT().Setenv("KUBECONFIG", file)
		_, _, err := newNamespace(ctx).train(ctx, "list", "--kubeconfig=")
		Expect(err).To(MatchError(HavePrefix("no cluster is configured, since there is no kubeconfig at " + file)))
	})

	It("reports the server that does not respond, and its context", func(ctx context.Context) {
		listener, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // nothing listens on it
		Expect(err).NotTo(HaveOccurred())
		server := "https://" + listener.Addr().String()
		Expect(listener.Close()).To(Succeed())
		_, _, err = newNamespace(ctx).train(ctx, "logs", "digits", "--server", server)
		Expect(err).To(MatchError(And(
			HavePrefix("cannot reach the server "+server+" of the context "), ContainSubstring(" in "+kubeconfig+": "),
			ContainSubstring("connection refused: check with kubectl cluster-info"))))
	})

	It("reports that the context does not exist", func(ctx context.Context) {
		_, _, err := newNamespace(ctx).train(ctx, "list", "--context=production")
		Expect(err).To(MatchError(kubeconfig + ` has no context "production": kubectl config get-contexts lists the contexts`))
	})

	It("reports the rights that the user lacks", func(ctx context.Context) {
		n := newNamespace(ctx)
		_, _, err := n.train(ctx, "list", "--as=jane")
		Expect(err).To(MatchError("user jane may not list pytorchtrainingjobs, tensorflowtrainingjobs, deepspeedjobs in " +
			"namespace " + string(n) + ": ask an administrator for a Role with this right, such as the ClusterRole edit"))
		_, _, err = n.train(ctx, "pause", "ptjob/digits", "--as=jane")
		Expect(err).To(MatchError(HavePrefix("user jane may not get pytorchtrainingjobs in namespace " + string(n))))
	})

	It("reports that the credentials are not accepted", func(ctx context.Context) {
		_, _, err := newNamespace(ctx).train(ctx, "list", "--kubeconfig", withToken("expired"))
		Expect(err).To(MatchError(ContainSubstring("does not accept the credentials of the context ")))
	})
})

// withToken writes a kubeconfig for the API server with a token, and returns its path.
func withToken(token string) string {
	GinkgoHelper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	return file
}
