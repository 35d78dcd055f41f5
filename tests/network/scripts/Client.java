import java.net.URI;
import java.net.http.*;
import java.util.concurrent.CompletableFuture;
import java.util.stream.*;

/** Asks over HTTP and TLS, and thirty times at once. */
public class Client {
    public static void main(String[] words) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        for (String url : new String[] {"http://www.example.org/", "https://www.example.org/"}) {
            System.out.print(client.send(request(url), HttpResponse.BodyHandlers.ofString()).body());
        }
        var all = IntStream.range(0, 30)
            .mapToObj(number -> client.sendAsync(request("http://www.example.org/bytes/100"), HttpResponse.BodyHandlers.ofString()))
            .collect(Collectors.toList());
        System.out.println("many " + all.stream().map(CompletableFuture::join).mapToInt(answer -> answer.body().length()).sum());
    }

    static HttpRequest request(String url) {
        return HttpRequest.newBuilder(URI.create(url)).build();
    }
}
