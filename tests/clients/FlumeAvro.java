// Flume's Avro source and sink as avro-ipc's own Netty classes speak them. Usage: FlumeAvro server|client PORT PROTOCOL
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.avro.Protocol;
import org.apache.avro.generic.*;
import org.apache.avro.ipc.*;
import org.apache.avro.ipc.generic.*;

public class FlumeAvro {
  public static void main(String[] args) throws Exception {
    Protocol protocol = Protocol.parse(args[2]);
    if (args[0].equals("client")) {
      NettyTransceiver transceiver = new NettyTransceiver(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[1])));
      GenericRequestor requestor = new GenericRequestor(protocol, transceiver);
      for (int batch = 0; batch < 3; batch++) {
        List<GenericRecord> events = new ArrayList<>();
        for (int n = 0; n < 100; n++) {
          GenericRecord event = new GenericData.Record(protocol.getType("org.apache.flume.source.avro.AvroFlumeEvent"));
          event.put("headers", Map.of("batch", "" + batch));
          event.put("body", ByteBuffer.wrap(("event " + n).getBytes()));
          events.add(event);
        }
        GenericRecord request = new GenericData.Record(protocol.getMessages().get("appendBatch").getRequest());
        request.put("events", events);
        System.out.println(requestor.request("appendBatch", request));
      }
      transceiver.close();
      System.exit(0);
    }
    GenericResponder responder = new GenericResponder(protocol) {
      public Object respond(Protocol.Message message, Object request) {
        for (Object item : (Collection<?>) ((GenericRecord) request).get("events")) {
          GenericRecord event = (GenericRecord) item;
          byte[] body = new byte[((ByteBuffer) event.get("body")).remaining()];
          ((ByteBuffer) event.get("body")).get(body);
          System.out.println(event.get("headers") + " " + new String(body));
        }
        return new GenericData.EnumSymbol(protocol.getType("org.apache.flume.source.avro.Status"), "OK");
      }
    };
    NettyServer server = new NettyServer(responder, new InetSocketAddress("127.0.0.1", 0));
    server.start();
    System.out.println(server.getPort());
    System.in.read();
    System.exit(0);
  }
}
