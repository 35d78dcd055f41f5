import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.*;
import io.netty.channel.*;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.*;
import io.netty.resolver.*;
import io.netty.resolver.dns.*;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;

/** Talks to an echo, its name resolved by the JDK and then by Netty itself. */
public class Netty {
    public static void main(String[] words) throws Exception {
        var group = new NioEventLoopGroup(2);
        try {
            System.out.println("jdk " + talk(group, DefaultAddressResolverGroup.INSTANCE));
            System.out.println("netty " + talk(group, new DnsAddressResolverGroup(new DnsNameResolverBuilder()
                .channelType(NioDatagramChannel.class)
                .nameServerProvider(DnsServerAddressStreamProviders.platformDefault()))));
        } catch (Exception error) {
            System.err.println(error);
            System.exit(1);
        }
        group.shutdownGracefully(0, 0, java.util.concurrent.TimeUnit.SECONDS);
    }

    static String talk(EventLoopGroup group, AddressResolverGroup<?> resolver) throws Exception {
        var answer = new CompletableFuture<String>();
        var handler = new ChannelInboundHandlerAdapter() {
            @Override public void channelActive(ChannelHandlerContext context) {
                context.writeAndFlush(Unpooled.copiedBuffer("back", StandardCharsets.US_ASCII));
            }
            @Override public void channelRead(ChannelHandlerContext context, Object message) {
                answer.complete(((ByteBuf) message).toString(StandardCharsets.US_ASCII));
                context.close();
            }
            @Override public void exceptionCaught(ChannelHandlerContext context, Throwable error) {
                answer.completeExceptionally(error);
            }
        };
        new Bootstrap().group(group).channel(NioSocketChannel.class).resolver(resolver).handler(handler)
            .connect("www.example.org", 7).sync();
        return answer.get();
    }
}
